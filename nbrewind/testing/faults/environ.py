"""Faults in processes that a test starts: told by their environment."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import msgspec

from nbrewind.store import flushing
from nbrewind.testing.faults.layer import Layer
from nbrewind.testing.faults.plan import Fault, Plan

_VARIABLE = "NBREWIND_TEST_FAULTS"


def environment(root: str | os.PathLike[str], faults: Sequence[Fault]) -> dict[str, str]:
    """The environment variable that tells a process of faults below a folder."""
    plan = {"root": os.path.abspath(root), "faults": msgspec.to_builtins(list(faults))}
    return {_VARIABLE: json.dumps(plan)}


def flusher_program() -> str:
    """The program of a flusher that installs the faults its environment tells of."""
    head, main, tail = flushing._PROGRAM.rpartition("\nmain(")
    return (
        f"{head}\nfrom {__name__} import install_from_environ; install_from_environ(){main}{tail}"
    )


def install_from_environ() -> Layer | None:
    """Install the faults that the environment tells of, here and in flushers started from here.

    They stay for the life of this process.
    """
    text = os.environ.get(_VARIABLE)
    if not text:
        return None
    flushing._PROGRAM = flusher_program()
    plan = json.loads(text)
    layer = Layer(plan["root"], Plan(msgspec.convert(plan["faults"], list[Fault])))
    layer.install()
    return layer
