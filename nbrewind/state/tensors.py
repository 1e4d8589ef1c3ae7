"""torch tensors: a storage is captured once, tensors are windows into it.

CPU tensors only; what lives elsewhere is left to torch's own pickling, which
copies through the host. Used only when torch is imported already.
"""

from __future__ import annotations

import ctypes
import pickle
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def reduce_storage(pickler: StatePickler, storage: Any) -> Any:
    """Reduce an untyped CPU storage to its bytes."""
    if storage.device.type != "cpu":
        return NotImplemented
    size = storage.nbytes()
    pickler.memory_roots.append((storage.data_ptr(), size, id(storage)))
    raw = memoryview((ctypes.c_char * size).from_address(storage.data_ptr())).cast("B")
    pickler.keep_alive.append(storage)
    return make_storage, (pickle.PickleBuffer(raw), size)


def make_storage(buffer: Any, size: int) -> Any:
    """A CPU storage that owns its bytes."""
    import torch

    storage: Any = torch.UntypedStorage(size)  # type: ignore[no-untyped-call]
    if size:
        ctypes.memmove(storage.data_ptr(), bytes(buffer), size)
    return storage


def reduce_tensor(pickler: StatePickler, tensor: Any) -> Any:
    """Reduce a plain dense CPU leaf tensor or parameter; others as torch does.

    Raises:
        NotStorable: it carries its graph, or hooks that torch's own pickling would drop.
    """
    import torch

    kind = type(tensor)
    if tensor.grad_fn is not None:
        raise NotStorable("a tensor with the graph it was computed by cannot be stored")
    if (
        kind not in (torch.Tensor, torch.nn.Parameter)
        or tensor.device.type != "cpu"
        or tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.is_conj()
        or tensor.is_neg()
        or not tensor.is_leaf
    ):
        if any(hooks_of(tensor)):
            raise NotStorable("a tensor of this kind cannot be stored with its hooks")
        return NotImplemented
    storage = pickler.storage_of(tensor)
    state: tuple[Any, ...] = (tensor.grad, dict(tensor.__dict__))
    hooks = hooks_of(tensor)
    if hooks != (None, None):
        state = (*state, *hooks)
    return (
        make_tensor,
        (
            storage,
            str(tensor.dtype).removeprefix("torch."),
            tensor.storage_offset(),
            tuple(tensor.size()),
            tensor.stride(),
            tensor.requires_grad,
            kind is torch.nn.Parameter,
        ),
        state if state[0] is not None or state[1] or len(state) > 2 else None,
        None,
        None,
        set_tensor_state,
    )


def make_tensor(
    storage: Any,
    dtype: str,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    parameter: bool,
) -> Any:
    """A tensor over a storage."""
    import torch

    tensor = torch.empty(0, dtype=getattr(torch, dtype))
    tensor.set_(storage, offset, size, stride)
    if parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def hooks_of(tensor: Any) -> tuple[Any, Any]:
    """The hooks of a tensor: on its gradient, and after gradients have been added to it."""
    return getattr(tensor, _HOOKS[0]), getattr(tensor, _HOOKS[1], None)


def set_tensor_state(tensor: Any, state: tuple[Any, ...]) -> None:
    """Give a tensor its gradient, its attributes and its hooks."""
    grad, attributes, *hooks = state
    tensor.grad = grad
    tensor.__dict__.update(attributes)
    for name, registered in zip(_HOOKS, hooks, strict=False):
        if registered is not None:
            setattr(tensor, name, registered)
