"""Campaigns with processes that are killed: writers, their flushers, or both."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from nbrewind.model.blobs import ObjectId
from nbrewind.store import open_store
from nbrewind.store.abc import Store
from nbrewind.testing.faults.campaign import afterwards
from nbrewind.testing.faults.layer import Layer
from nbrewind.testing.faults.plan import Fault, Operation, Plan
from nbrewind.testing.faults.workload import Claim, Workload, check_promises

Victim = Literal["writer", "kernel", "flusher", "both"]

_FATAL: tuple[Operation, ...] = (
    *("create", "write", "fsync", "sync directory", "close", "link", "rename", "unlink", "mkdir"),
)
_FLUSHER_SECONDS = 0.7
"""What a history takes longer with flushers, which have to start."""
_FLUSHER_MARK = b"nbrewind-flusher"


@dataclass
class Kill:
    """One run."""

    what: str
    reached: bool
    """It was killed before it ended by itself."""
    acknowledged: int
    wrong: list[str] = field(default_factory=list)


def one_kill(seed: int, folder: Path, victim: Victim) -> Kill:
    """Kill a process in the middle of a history, and look at what is left.

    Args:
        seed: Decides on the history and the moment.
        folder: Is made; not removed.
        victim: `writer` commits by itself; the others commit through a flusher.
    """
    chance = random.Random(seed)
    folder.mkdir()
    root, history = folder / "s", seed // 4
    plan = Plan()
    with Layer(folder, plan).installed():
        started = time.monotonic()
        expected = Workload(history, lambda: open_store(folder / "dry")).run()
        usual = time.monotonic() - started
    fault = None
    if victim == "writer" and chance.random() < 0.7:
        operation = chance.choice([each for each in _FATAL if plan.seen[each]])
        nth = chance.randrange(plan.seen[operation]) + 1
        fault = Fault(operation=operation, effect=chance.choice(["kill", "killed"]), nth=nth)
    told, ending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        _be_killed(root, history, ending, fault, flusher=victim != "writer")
    os.close(ending)
    what = str(fault) if fault else f"kill of {victim}"
    if fault is None:
        time.sleep(chance.uniform(0, usual if victim == "writer" else usual + _FLUSHER_SECONDS))
        victims = _flushers(root) if victim in ("flusher", "both") else []
        if victim != "flusher":
            victims.insert(chance.randrange(len(victims) + 1), child)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    claims = _told(told)
    _, status = os.waitpid(child, 0)
    _wait_for_flushers(root)
    killed = os.WIFSIGNALED(status)
    result = Kill(what, reached=killed or victim == "flusher", acknowledged=len(claims.promised))
    if not killed and os.waitstatus_to_exitcode(status) != 0:
        result.wrong.append("the writer failed: " + claims.trouble)
    owed = replace(
        expected,
        acknowledged=claims.acknowledged,
        settled=claims.settled | (claims.captured if victim == "kernel" else set()),
        refused=set(),
    )
    if (root / "CONFIG").exists() or claims.promised:
        result.wrong += afterwards(root, lambda s: check_promises(s, owed, phantoms=True))
    return result


@dataclass
class _Told:
    acknowledged: set[Claim] = field(default_factory=set)
    settled: set[tuple[str, ObjectId]] = field(default_factory=set)
    captured: set[tuple[str, ObjectId]] = field(default_factory=set)
    trouble: str = ""

    @property
    def promised(self) -> set[object]:
        return {*self.acknowledged, *self.settled}


def _be_killed(root: Path, history: int, pipe: int, fault: Fault | None, *, flusher: bool) -> None:
    """What the child does; does not return."""

    def tell(*claim: object) -> None:
        data = msgspec.msgpack.encode(claim)
        os.write(pipe, len(data).to_bytes(4, "little") + data)

    def opened() -> Store:
        return open_store(root, flusher=contextlib.nullcontext) if flusher else open_store(root)

    code = 1
    try:
        Layer(root.parent, Plan([fault] if fault else [])).install()
        workload = Workload(
            history,
            opened,
            told=lambda claim: tell("done", *claim),
            captured=lambda claim: tell("captured", *claim),
        )
        expected = workload.run()
        if expected.complaints:
            raise AssertionError(f"complaints: {expected.complaints}")
        code = 0
    except BaseException:
        tell("trouble", traceback.format_exc())
    finally:
        sys.stdout.flush()
        os._exit(code)


def _told(pipe: int) -> _Told:
    """What the child had said when it ended."""
    told = _Told()
    with open(pipe, "rb") as file:
        while len(head := file.read(4)) == 4:
            data = file.read(int.from_bytes(head, "little"))
            if len(data) < int.from_bytes(head, "little"):
                break
            kind, *claim = msgspec.msgpack.decode(data)
            if kind == "trouble":
                told.trouble = claim[0]
            elif kind == "captured":
                told.captured.add((claim[0], claim[1]))
            elif len(claim) == 3:
                told.acknowledged.add((claim[0], claim[1], claim[2]))
            else:
                told.settled.add((claim[0], claim[1]))
    return told


def _flushers(root: Path) -> list[int]:
    """The flushers of a store."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                command = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
                if _FLUSHER_MARK in command and os.fsencode(root) in command:
                    found.append(int(entry))
    return found


def _wait_for_flushers(root: Path) -> None:
    for _ in range(3000):
        if not _flushers(root):
            return
        time.sleep(0.01)
    raise AssertionError(f"a flusher of {root} does not end")
