"""Campaigns: one fault, drawn at random, somewhere in a history; then the store is opened anew."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from unittest.mock import patch

from nbrewind.errors import NBRewindError, StoreFormatError
from nbrewind.store import config, flushing, open_store
from nbrewind.store.check import check_store
from nbrewind.testing.faults.environ import environment, flusher_program
from nbrewind.testing.faults.layer import Layer
from nbrewind.testing.faults.plan import Fault, Operation, Plan
from nbrewind.testing.faults.power import Journal, restore
from nbrewind.testing.faults.workload import Expected, Workload, check_promises

_WRITING: tuple[Operation, ...] = ("create", "write", "link", "rename", "mkdir")
_READING: tuple[Operation, ...] = ("open", "read", "stat", "list")

KINDS: dict[str, tuple[tuple[Operation, ...], dict[str, object]]] = {
    "disk full": (_WRITING, {"errno": errno.ENOSPC, "times": 0}),
    "disk full once": (_WRITING, {"errno": errno.ENOSPC}),
    "quota": (_WRITING, {"errno": errno.EDQUOT, "times": 0}),
    "full after a part": (("write",), {"effect": "partial", "errno": errno.ENOSPC}),
    "error of a write": (_WRITING, {"errno": errno.EIO}),
    "error after a part": (("write",), {"effect": "partial", "errno": errno.EIO}),
    "error of fsync": (("fsync", "sync directory"), {"errno": errno.EIO}),
    "fsync drops pages": (("fsync",), {"effect": "drop", "errno": errno.EIO}),
    "full at fsync": (("fsync", "sync directory"), {"errno": errno.ENOSPC}),
    "error of close": (("close",), {"errno": errno.EIO}),
    "short write": (("write",), {"effect": "short"}),
    "short read": (("read",), {"effect": "short"}),
    "stale handle": ((*_READING, *_WRITING, "fsync", "unlink"), {"errno": errno.ESTALE}),
    "stale for good": ((*_READING, *_WRITING), {"errno": errno.ESTALE, "times": 0}),
    "error of a read": (_READING, {"errno": errno.EIO}),
    "permission": ((*_READING, *_WRITING), {"errno": errno.EACCES}),
    "permission for good": ((*_READING, *_WRITING), {"errno": errno.EACCES, "times": 0}),
    "no descriptors": (("open", "create", "list"), {"errno": errno.EMFILE}),
    "error of unlink": (("unlink", "rmdir"), {"errno": errno.EIO}),
    "answer lost": (("link",), {"effect": "lost", "errno": errno.EEXIST}),
    "name taken": (("link", "mkdir"), {"errno": errno.EEXIST}),
    "other answer lost": (("link", "rename"), {"effect": "lost", "errno": errno.EIO}),
    "rename answered twice": (("rename",), {"effect": "lost", "errno": errno.ENOENT}),
    "timeout": ((*_WRITING, "fsync"), {"effect": "lost", "errno": errno.ETIMEDOUT}),
    "no links": (("link",), {"errno": errno.EPERM, "times": 0}),
    "false link count": (("stat",), {"effect": "lie", "amount": 1, "times": 0}),
    "false link count of two": (("stat",), {"effect": "lie", "amount": 2, "times": 0}),
    "clock forward": (("clock",), {"effect": "lie", "amount": 1e6}),
    "clock back": (("clock",), {"effect": "lie", "amount": -1e6}),
    "slow disk": ((*_WRITING, *_READING, "fsync"), {"effect": "delay", "amount": 0.01}),
    "flipped bit": ((), {}),
    "cut file": ((), {}),
    "missing file": ((), {}),
    "zeroed range": ((), {}),
    "file doubled": ((), {}),
}
"""What can go wrong once; without an operation: to a file, between two openings."""

_VISIBLE_ALTHOUGH_FAILED = ("timeout", "other answer lost", "error of unlink")


@dataclass
class Result:
    """One run."""

    kind: str
    fault: str
    happened: bool
    wrong: list[str] = field(default_factory=list)


Where = Literal["writer", "kernel", "flusher"]
"""The process that a fault hits; `writer` has no flusher."""


def one_fault(seed: int, folder: Path, kind: str | None = None, where: Where = "writer") -> Result:
    """Run a history with one random fault in a new folder, and look at what is left.

    Args:
        seed: Decides on the history, the kind of fault and where it happens.
        folder: Is made; not removed.
        kind: One of `KINDS` instead of a random one.
        where: The process it hits.
    """
    logging.getLogger("nbrewind.store").addHandler(logging.NullHandler())
    chance = random.Random(seed)
    kind = kind or chance.choice(list(KINDS))
    operations, fields = KINDS[kind]
    folder.mkdir()
    root = folder / "s"
    open_before = open_descriptors()
    if not operations:
        return _damaged(seed, root, kind, chance)
    history = seed // 4
    seen = _counted(history, folder / "dry")
    possible = [operation for operation in operations if seen[operation]]
    if not possible:
        return Result(kind, "no such operation", happened=False)
    operation = chance.choice(possible)
    fault = Fault(
        operation=operation,
        nth=chance.randrange(seen[operation]) + 1,
        **fields,  # type: ignore[arg-type]
    )
    plan = Plan([fault] if where != "flusher" else [])
    result = Result(kind, f"{fault} in the {where}", happened=where == "flusher")
    quietly = None if where == "writer" else contextlib.nullcontext
    workload = Workload(history, lambda: open_store(root, flusher=quietly))
    flusher_plan = [fault] if where == "flusher" else []
    with Layer(folder, plan).installed(), _in_flushers(folder, flusher_plan):
        try:
            workload.run()
        except (AssertionError, NBRewindError, OSError, ValueError) as exc:
            last = traceback.extract_tb(exc.__traceback__)[-1]
            result.wrong.append(f"{type(exc).__name__}: {exc} ({last.filename}:{last.lineno})")
    result.happened |= bool(plan.hit)
    expected = workload.expected
    if expected.stuck and fault.times == 1:
        result.wrong.append(f"the session could not go on: {expected.complaints[-1]}")
    phantoms = kind in _VISIBLE_ALTHOUGH_FAILED
    result.wrong += afterwards(
        root, lambda s: check_promises(s, expected, phantoms=phantoms), tidy=operation != "unlink"
    )
    if (leak := open_descriptors() - open_before) > 0:
        result.wrong.append(f"{leak} descriptors were left open")
    return result


@contextlib.contextmanager
def _in_flushers(folder: Path, faults: Sequence[Fault]) -> Iterator[None]:
    """Flushers that are started meanwhile have these faults."""
    with (
        patch.object(flushing, "_PROGRAM", flusher_program()),
        patch.dict(os.environ, environment(folder, faults)),
    ):
        yield


def _counted(history: int, root: Path) -> dict[Operation, int]:
    plan = Plan()
    with Layer(root.parent, plan).installed():
        Workload(history, lambda: open_store(root)).run()
    return plan.seen


def afterwards(root: Path, check: Callable[..., list[str]], *, tidy: bool = False) -> list[str]:
    """What is wrong with a store now that there are no faults any more."""
    try:
        store = open_store(root)
    except NBRewindError as exc:
        return [f"cannot be opened: {exc}"]
    try:
        wrong = check(store)
        wrong += _goes_on(root)
    finally:
        store.close()
    left = [p.name for p in (root / "tmp").rglob("*") if p.is_file()]
    if left and tidy:
        wrong.append(f"left in tmp: {left}")
    return wrong


def _goes_on(root: Path) -> list[str]:
    later = Workload(-1, lambda: open_store(root), steps=4)
    later.run()
    if later.expected.complaints:
        return [f"does not go on: {later.expected.complaints[0]}"]
    with open_store(root, read_only=True) as store:
        found = {(r.body.lineage, r.body.seq, r.body.record) for r in store.refs()}
    return [] if later.expected.acknowledged <= found else ["later commits are lost"]


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def _damaged(seed: int, root: Path, kind: str, chance: random.Random) -> Result:
    """Damage one file of a store, read what is left, repair it, read again."""
    with Layer(root.parent, Plan()).installed():
        expected = Workload(seed // 4, lambda: open_store(root)).run()
    files = [p for p in sorted(root.rglob("*")) if p.is_file()]
    path = chance.choice(files)
    what = f"{kind} of {path.relative_to(root)}"
    before = path.read_bytes()
    _harm(path, kind, chance)
    result = Result(kind, what, happened=not path.exists() or path.read_bytes() != before)
    try:
        store = open_store(root)
    except StoreFormatError as exc:
        try:
            config.restore(str(root))
        except StoreFormatError:
            if path.name != "CONFIG" or (path.exists() and "newer" not in str(exc)):
                result.wrong.append(f"cannot be opened: {exc}")
            return result
        store = open_store(root)
    with store:
        result.wrong += check_promises(store, _without(expected, path), damaged=True)
    with open_store(root) as store:
        report = check_store(store, repair=True)
        told = path.suffix in (".pack", ".ref") and kind != "missing file"
        if result.happened and told and report.sound:
            result.wrong.append("the check found nothing")
    with open_store(root) as store:
        result.wrong += check_promises(store, _without(expected, path), damaged=True)
        readable = _unreadable(store, expected, path, before)
        result.wrong += readable
    return result


def _harm(path: Path, kind: str, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content)) if content else 0
    if kind == "missing file":
        path.unlink()
        return
    if kind == "file doubled":
        path.with_name(f"copy of {path.name}").write_bytes(content)
        return
    if kind == "flipped bit" and content:
        content[at] ^= 1 << chance.randrange(8)
    elif kind == "cut file":
        del content[at:]
    else:
        end = min(len(content), at + chance.randrange(1, 5000))
        content[at:end] = bytes(end - at)
    path.unlink()
    path.write_bytes(content)


def _without(expected: Expected, path: Path) -> Expected:
    """What is owed if a ref's file is harmed: all but that ref."""
    if path.suffix != ".ref":
        return expected
    place = (path.parent.name, int(path.stem))
    kept = {claim for claim in expected.acknowledged if claim[:2] != place}
    return Expected(
        blobs=expected.blobs,
        records=expected.records,
        contents=expected.contents,
        acknowledged=kept,
        refused=expected.refused,
    )


def _unreadable(store: object, expected: Expected, path: Path, before: bytes) -> list[str]:
    """Objects that cannot be read although their pack was not the one that was harmed."""
    from nbrewind.errors import ObjectDamaged, ObjectMissing

    harmed = {record for record in expected.records if path.suffix == ".pack"}
    wrong = []
    for ref in store.refs():  # type: ignore[attr-defined]
        try:
            store.get(ref.body.record)  # type: ignore[attr-defined]
        except (ObjectDamaged, ObjectMissing) as exc:
            if ref.body.record not in harmed:
                wrong.append(f"not readable although its pack was not harmed: {exc}")
    return wrong


def power_failure(
    seed: int, folder: Path, moments: int = 5, fault: Fault | None = None
) -> list[str]:
    """Run a history, let the power fail at random moments of it, and look at each outcome.

    Args:
        seed: Decides on the history, the moments and what survives.
        folder: Is made; not removed.
        moments: How many.
        fault: Happens before.
    """
    chance = random.Random(seed)
    folder.mkdir()
    root = folder / "a" / "s"
    root.parent.mkdir()
    journal = Journal(str(root.parent))
    workload = Workload(seed, lambda: open_store(root), told=journal.mark)
    with Layer(root.parent, Plan([fault] if fault else []), journal).installed():
        workload.run()
    wrong: list[str] = []
    for number in range(moments):
        moment = chance.randrange(len(journal) + 1)
        told = journal.marks(moment)
        place = folder / f"after{number}"
        restore(journal.after_power_failure(moment, chance), str(place))
        expected = workload.expected
        owed = Expected(
            blobs=expected.blobs,
            records=expected.records,
            contents=expected.contents,
            acknowledged={claim for claim in told if len(claim) == 3},  # type: ignore[misc,arg-type]
            settled={claim for claim in told if len(claim) == 2},  # type: ignore[misc,arg-type]
        )
        check = afterwards(place / "s", lambda s, owed=owed: check_promises(s, owed, phantoms=True))
        wrong += [f"moment {moment} of {len(journal)}: {what}" for what in check]
    return wrong
