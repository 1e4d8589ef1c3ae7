"""torch's optimizers, whole: their own pickling leaves out hooks and what schedulers hung in."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_TRACKER = "_wrapped_by_lr_sched"


def reduce_optimizer(pickler: StatePickler, optimizer: Any) -> Any:
    """Reduce an optimizer to all its attributes.

    A scheduler puts a function in front of `step` that notes that it was called; that function
    is made again by torch. Optimizers that pickle in a way of their own are left to it.

    Raises:
        NotStorable: something else was put in front of `step`.
    """
    import torch

    kind: Any = type(optimizer)
    base = torch.optim.Optimizer
    if kind.__getstate__ is not base.__getstate__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        return NotImplemented
    attributes = dict(vars(optimizer))
    step = attributes.pop("step", None)
    if step is not None and not _is_tracker(step, kind):
        raise NotStorable("an optimizer whose `step` was replaced cannot be stored")
    order = tuple(vars(optimizer))
    return make_optimizer, (kind, step is not None), (attributes, order), None, None, set_attributes


def make_optimizer(kind: Any, tracked: bool) -> Any:
    """An optimizer without parameters; if `tracked`, as a scheduler leaves it."""
    from torch.optim.lr_scheduler import LRScheduler

    class Tracking(LRScheduler):
        def _initial_step(self) -> None:
            """Leave the learning rates alone."""

    optimizer = kind.__new__(kind)
    optimizer._patch_step_function()
    if tracked:
        optimizer.param_groups = []
        Tracking(optimizer)
    return optimizer


def set_attributes(optimizer: Any, state: tuple[dict[str, Any], tuple[str, ...]]) -> None:
    """Give an optimizer its attributes, in the order they had."""
    attributes, order = state
    space = vars(optimizer)
    known = {**space, **attributes}
    space.clear()
    space.update((name, known[name]) for name in order)


def _is_tracker(step: Any, kind: Any) -> bool:
    """Whether this is the function that a scheduler puts in front of the class's `step`."""
    if not hasattr(step, _TRACKER) or not inspect.isfunction(step):
        return False
    return inspect.getclosurevars(step).nonlocals.get("func") is kind.step
