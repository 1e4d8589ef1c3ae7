"""What a power failure leaves: what was synchronised, and any part of what was not.

The model is POSIX's, which is stricter than any one file system: content is durable once
its file was synchronised, a name once its directory was. Of what came after, each directory
has any part of its changes and each file any part of its writes.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

_PAGE = 4096
Tree = dict[str, bytes | None]
"""Paths below the root with their content; None for a directory."""


@dataclass(frozen=True)
class _Enter:
    path: str
    node: int | None
    """None: a directory."""


@dataclass(frozen=True)
class _Leave:
    path: str


@dataclass(frozen=True)
class _Write:
    node: int
    at: int
    data: bytes


@dataclass(frozen=True)
class _Sync:
    what: str | int
    """The path of a directory, or a file's node."""
    since: int
    """Events before this one are durable now; later ones may have come too late."""


@dataclass(frozen=True)
class _Mark:
    label: object


class Journal:
    """All that happened to the files below a folder, in order. Safe to use from several threads.

    Args:
        root: The folder; what it has in the beginning is durable.
    """

    def __init__(self, root: str) -> None:
        self._events: list[_Enter | _Leave | _Write | _Sync | _Mark] = []
        self._lock = threading.Lock()
        self._node: dict[int, int] = {}
        self._nodes = 0
        self._start: Tree = {}
        for folder, names, files in os.walk(root):
            for name in names:
                self._start[os.path.relpath(os.path.join(folder, name), root)] = None
            for name in files:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    self._start[os.path.relpath(path, root)] = file.read()
                self._node[os.stat(path).st_ino] = self._nodes
                self._nodes += 1

    def __len__(self) -> int:
        return len(self._events)

    def enter(self, path: str, inode: int | None) -> None:
        """A name appeared."""
        with self._lock:
            node = None
            if inode is not None:
                if inode not in self._node:
                    self._node[inode] = self._nodes
                    self._nodes += 1
                node = self._node[inode]
            self._events.append(_Enter(path, node))

    def leave(self, path: str) -> None:
        """A name disappeared."""
        with self._lock:
            self._events.append(_Leave(path))

    def write(self, inode: int, at: int, data: bytes) -> None:
        """A file was written to."""
        with self._lock:
            self._events.append(_Write(self._node[inode], at, data))

    def created(self, inode: int) -> None:
        """A new file has this inode: it is not the one that had it before."""
        with self._lock:
            self._node.pop(inode, None)

    def begin(self) -> int:
        """Something will be synchronised; returns the moment for `sync`."""
        return len(self._events)

    def sync(self, what: str | int, since: int) -> None:
        """A file (by its inode) or directory was synchronised."""
        with self._lock:
            found = what if isinstance(what, str) else self._node[what]
            self._events.append(_Sync(found, since))

    def mark(self, label: object) -> None:
        """Somebody was told something: it is among `marks` of any later moment."""
        with self._lock:
            self._events.append(_Mark(label))

    def marks(self, moment: int) -> list[object]:
        """What had been said at a moment."""
        return [event.label for event in self._events[:moment] if isinstance(event, _Mark)]

    def after_power_failure(self, moment: int, chance: random.Random) -> Tree:
        """What the folder may look like if the power failed at `moment` (a number of events)."""
        names = _Names(self._start)
        contents: dict[int, _Content] = {}
        for number, event in enumerate(self._events[:moment]):
            if isinstance(event, _Enter):
                names.change(number, event.path, (event.node,))
            elif isinstance(event, _Leave):
                names.change(number, event.path, None)
            elif isinstance(event, _Write):
                contents.setdefault(event.node, _Content()).write(number, event)
            elif isinstance(event, _Sync) and isinstance(event.what, str):
                names.sync(event.what, event.since)
            elif isinstance(event, _Sync) and isinstance(event.what, int):
                contents.setdefault(event.what, _Content()).sync(event.since)
        found = {node: content.survivor(chance) for node, content in contents.items()}
        return names.survivor(chance, lambda node: found.get(node, b""))


@dataclass
class _Content:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, _Write]] = field(default_factory=list)

    def write(self, number: int, event: _Write) -> None:
        self.pending.append((number, event))

    def sync(self, since: int) -> None:
        for number, event in self.pending:
            if number < since:
                _apply(self.durable, event.at, event.data)
        self.pending = [one for one in self.pending if one[0] >= since]

    def survivor(self, chance: random.Random) -> bytes:
        content = bytearray(self.durable)
        how = chance.choice(["none", "all", "torn", "pages"])
        writes = [] if how == "none" else [event for _, event in self.pending]
        for number, event in enumerate(writes):
            if how == "torn" and number == len(writes) - 1:
                _apply(content, event.at, event.data[: chance.randrange(len(event.data) + 1)])
            elif how == "pages":
                for at in range(0, len(event.data), _PAGE):
                    if chance.random() < 0.5:
                        _apply(content, event.at + at, event.data[at : at + _PAGE])
            else:
                _apply(content, event.at, event.data)
        return bytes(content)


def _apply(content: bytearray, at: int, data: bytes) -> None:
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


class _Names:
    """Entries of directories: a file's node, or None for a directory, each in a tuple."""

    def __init__(self, start: Tree) -> None:
        self._start = start
        self._durable: dict[str, tuple[int | None] | None] = {}
        self._pending: dict[str, list[tuple[int, str, tuple[int | None] | None]]] = {}

    def change(self, number: int, path: str, entry: tuple[int | None] | None) -> None:
        folder = os.path.dirname(path) or "."
        self._pending.setdefault(folder, []).append((number, path, entry))

    def sync(self, folder: str, since: int) -> None:
        pending = self._pending.get(folder, [])
        for number, path, entry in pending:
            if number < since:
                self._durable[path] = entry
        self._pending[folder] = [one for one in pending if one[0] >= since]

    def survivor(self, chance: random.Random, content: Callable[[int], bytes]) -> Tree:
        entries = dict(self._durable)
        for folder in sorted(self._pending):
            share = chance.choice([0.0, 0.5, 1.0])
            for _, path, entry in self._pending[folder]:
                if chance.random() < share:
                    entries[path] = entry
        found: Tree = dict(self._start)
        for path, place in entries.items():
            if place is None:
                found.pop(path, None)
            else:
                found[path] = None if place[0] is None else content(place[0])
        # A name in a directory that is itself not there cannot be found.
        return {path: data for path, data in found.items() if _reachable(path, found)}


def _reachable(path: str, tree: Tree) -> bool:
    folder = os.path.dirname(path)
    return not folder or (folder in tree and tree[folder] is None and _reachable(folder, tree))


def restore(tree: Tree, root: str) -> None:
    """Write a tree to a new folder."""
    os.makedirs(root)
    for path, content in sorted(tree.items()):
        target = os.path.join(root, path)
        if content is None:
            os.mkdir(target)
        else:
            with open(target, "wb") as file:
                file.write(content)
