"""What hangs in torch's objects beside their values is restored with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbrewind.errors import NotStorable
from nbrewind.state.optimizers import reduce_optimizer
from nbrewind.testing.oracle import compare

pytest.importorskip("torch")
pytestmark = pytest.mark.long  # every run is a process that imports torch anew

START = "import torch\ntorch.manual_seed(3)\nmodel = torch.nn.Linear(1, 2)"
HOOKS = "calls = []\ndef one(*args): calls.append(1)\ndef two(*args): calls.append(2)"
LEAF = "x = torch.ones(2, requires_grad=True)"
SGD = "opt = torch.optim.SGD(model.parameters(), lr=0.1)"
SCHEDULER = "plan = torch.optim.lr_scheduler.StepLR(opt, 1)"

KEPT = {
    "on a gradient": (f"{LEAF}\nh = x.register_hook(one)", "x.sum().backward(); calls"),
    "on an added gradient": (
        f"{LEAF}\nh = x.register_post_accumulate_grad_hook(one)",
        "x.sum().backward(); calls",
    ),
    "on a parameter": (
        "h = model.weight.register_hook(one)",
        "model.weight.sum().backward(); calls",
    ),
    "on an optimizer": (f"{SGD}\nh = opt.register_step_post_hook(one)", "opt.step(); calls"),
    "of a scheduler": (
        f"{SGD}\n{SCHEDULER}",
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as seen: opt.step(); plan.step()\n"
        "len(seen), hasattr(opt.step, '_wrapped_by_lr_sched'), opt._opt_called",
    ),
}


@pytest.mark.parametrize("hook", KEPT)
def test_hooks_are_restored(hook: str, root: Path) -> None:
    make, use = KEPT[hook]
    before = [START, HOOKS, make, "1"]
    assert compare(before, [*before, use], root, forked=True).executed == [4]


def test_an_optimizer_whose_step_was_replaced_is_not_stored() -> None:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    optimizer.step = len
    no_pickler: Any = None
    with pytest.raises(NotStorable):
        reduce_optimizer(no_pickler, optimizer)


def test_a_new_hook_takes_no_place_of_a_restored_one(root: Path) -> None:
    before = [START, HOOKS, "h = model.register_forward_hook(one)\ndel h", "1"]
    after = [*before, "g = model.register_forward_hook(two)", "model(torch.ones(1, 1)); calls"]
    assert compare(before, after, root, forked=True).executed == [4, 5]
