"""`trash/`: what was removed and can still be had back for a while.

Packs lie there as they do in `packs/`, and readers find their objects; refs lie in
`trash/refs/`, and can be moved back by hand: a collection copies what they need out of
trash.
"""

from __future__ import annotations

import contextlib
import os
import re

from nbrewind.model.blobs import ObjectId
from nbrewind.store import durable, refs
from nbrewind.store.catalog import pack_place

TRASH = "trash"

_REF = re.compile(r"(\d+)~[0-9A-Za-z-]{1,64}~[0-9]{10}\.ref")


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


def purge_refs(root: str, before: float) -> None:
    """Remove for good the refs that were moved to trash before a time."""
    folder = os.path.join(root, TRASH, "refs")
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            match = _REF.fullmatch(name)
            if match is not None and int(match[1]) <= before:
                durable.discard(os.path.join(folder, name))


def _folder(root: str, name: str) -> str:
    path = os.path.join(root, TRASH)
    durable.make_directory(path)
    path = os.path.join(path, name)
    durable.make_directory(path)
    return path
