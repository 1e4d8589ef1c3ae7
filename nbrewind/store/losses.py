"""Objects that are lost and known to be: a repair notes them, so that a collection can go on.

Each repair that finds some adds `lost/<random>.lost`. An object that was put again is there,
whatever is noted.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable

import msgspec

from nbrewind.model.blobs import ObjectId
from nbrewind.store import durable
from nbrewind.store.sealed import seal, unseal

MAGIC = b"NBRWLOS\x01"
FOLDER = "lost"


class Lost(msgspec.Struct, frozen=True):
    """What one repair noted."""

    objects: tuple[ObjectId, ...]


def read_lost(root: str) -> frozenset[ObjectId]:
    """All objects noted as lost.

    Raises:
        ObjectDamaged: a note is damaged.
        OSError: one cannot be read.
    """
    folder = os.path.join(root, FOLDER)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".lost")]
    except FileNotFoundError:
        return frozenset()
    found: set[ObjectId] = set()
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            found.update(unseal(MAGIC, file.read(), Lost).objects)
    return frozenset(found)


def note_lost(root: str, objects: Iterable[ObjectId]) -> None:
    """Note objects as lost, durably. Raises `OSError`."""
    folder = os.path.join(root, FOLDER)
    durable.make_directory(folder)
    name = uuid.uuid4().hex
    temporary = os.path.join(folder, f"{name}.tmp")
    durable.write_small(temporary, seal(MAGIC, Lost(tuple(sorted(objects)))))
    durable.move(temporary, os.path.join(folder, f"{name}.lost"))
    durable.sync_directory(folder)
