"""Calling a function in a process of its own, forked from this one."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def in_a_fork(call: Callable[[], T]) -> T:
    """What `call` returns, computed in a forked process; nothing it changes stays here.

    Raises:
        AssertionError: it raised one.
        RuntimeError: it raised something else, or the process died.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run_and_exit(call, writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if not told:
        raise RuntimeError(f"the forked process ended with status {status}")
    kind, value = pickle.loads(told)
    if kind == "result":
        result: T = value
        return result
    raise (AssertionError if kind == "assertion" else RuntimeError)(value)


def _run_and_exit(call: Callable[[], Any], writer: int) -> None:
    try:
        told = pickle.dumps(("result", call()))
    except AssertionError as problem:
        told = pickle.dumps(("assertion", str(problem)))
    except BaseException:
        told = pickle.dumps(("error", traceback.format_exc()))
    try:
        with open(writer, "wb") as pipe:
            pipe.write(told)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)
