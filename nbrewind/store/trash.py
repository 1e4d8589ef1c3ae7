"""`trash/`: what was removed and can still be had back for a while.

Packs lie there as they do in `packs/`, and readers find their objects; refs lie in
`trash/refs/`, and can be moved back (`nbrewind.store.restoring`, or by hand): a collection
copies what they need out of trash.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import msgspec

from nbrewind.model.blobs import ObjectId
from nbrewind.store import durable, refs
from nbrewind.store.catalog import pack_place

TRASH = "trash"

_REF = re.compile(r"(\d+)~([0-9A-Za-z-]{1,64})~([0-9]{10}\.ref)")


class TrashedRef(msgspec.Struct, frozen=True, kw_only=True):
    """A ref in trash."""

    path: str
    place: refs.Place
    since: int
    """When it was moved there; seconds of the file system's clock."""


def move_to_trash(root: str, pack: ObjectId) -> None:
    """Take a pack out of a store; if that is done already, it stays done. Raises `OSError`."""
    folder, name = pack_place(pack)
    trash = _folder(root, folder)
    with contextlib.suppress(FileNotFoundError):
        durable.move(os.path.join(root, "packs", folder, name), os.path.join(trash, name))
    durable.sync_directory(trash)
    durable.sync_directory(os.path.join(root, "packs", folder))


def move_ref_to_trash(root: str, lineage: str, seq: int, now: float) -> str:
    """Take a ref out of a store; returns where it is now. Raises `OSError`."""
    trash = _folder(root, "refs")
    name = refs.file_name(seq)
    target = os.path.join(trash, f"{int(now)}~{lineage}~{name}")
    folder = os.path.join(root, "refs", lineage)
    with contextlib.suppress(FileNotFoundError):
        durable.move(os.path.join(folder, name), target)
    durable.sync_directory(trash)
    durable.sync_directory(folder)
    return target


def trashed_refs(root: str) -> Iterator[TrashedRef]:
    """The refs in trash, oldest first. Raises `OSError`."""
    folder = os.path.join(root, TRASH, "refs")
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    matches = [match for match in map(_REF.fullmatch, names) if match is not None]
    for match in sorted(matches, key=lambda match: int(match[1])):
        seq = refs.sequence(match[3])
        assert seq is not None
        path = os.path.join(folder, match[0])
        yield TrashedRef(path=path, place=(match[2], seq), since=int(match[1]))


def purge_refs(root: str, before: float) -> None:
    """Remove for good the refs that were moved to trash before a time."""
    for ref in trashed_refs(root):
        if ref.since <= before:
            durable.discard(ref.path)


def _folder(root: str, name: str) -> str:
    path = os.path.join(root, TRASH)
    durable.make_directory(path)
    path = os.path.join(path, name)
    durable.make_directory(path)
    return path
