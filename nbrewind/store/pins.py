"""Pins: records that a person wants to keep, whatever the policy says.

`pins/<lineage>~<seq>.pin` names one record. Prune leaves its ref alone, and a collection
keeps what it needs even if the ref is gone.
"""

from __future__ import annotations

import os

import msgspec

from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import RefBody
from nbrewind.store import durable
from nbrewind.store.sealed import seal, unseal

MAGIC = b"NBRWPIN\x01"
FOLDER = "pins"


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """One pinned record."""

    lineage: str
    seq: int
    record: ObjectId
    notebook: str = ""
    cell_id: str = ""
    note: str = ""
    """Why, for people."""

    @property
    def place(self) -> tuple[str, int]:
        """Of its ref."""
        return self.lineage, self.seq


class PinReport(msgspec.Struct, frozen=True, kw_only=True):
    """One pin, for programs that ask for the list."""

    lineage: str
    seq: int
    notebook: str
    cell_id: str
    note: str

    @classmethod
    def of(cls, pin: Pin) -> PinReport:
        """A pin as it is told."""
        return cls(
            lineage=pin.lineage,
            seq=pin.seq,
            notebook=pin.notebook,
            cell_id=pin.cell_id,
            note=pin.note,
        )


def read_pins(root: str) -> list[Pin]:
    """All pins.

    Raises:
        ObjectDamaged: one is damaged; what it pins is not known.
        OSError: one cannot be read.
    """
    folder = os.path.join(root, FOLDER)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pin"))
    except FileNotFoundError:
        return []
    found: list[Pin] = []
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            found.append(unseal(MAGIC, file.read(), Pin))
    return found


def add_pin(root: str, body: RefBody, note: str = "") -> Pin:
    """Pin the record of a ref, durably; a pin that is there is replaced. Raises `OSError`."""
    pin = Pin(
        lineage=body.lineage,
        seq=body.seq,
        record=body.record,
        notebook=body.notebook,
        cell_id=body.cell_id,
        note=note,
    )
    folder = os.path.join(root, FOLDER)
    durable.make_directory(folder)
    temporary = os.path.join(folder, f"{os.urandom(8).hex()}.tmp")
    durable.write_small(temporary, seal(MAGIC, pin))
    durable.move(temporary, _path(root, pin.place))
    durable.sync_directory(folder)
    return pin


def remove_pin(root: str, place: tuple[str, int]) -> bool:
    """Remove the pin of a ref; False if there is none. Raises `OSError`."""
    try:
        os.unlink(_path(root, place))
    except FileNotFoundError:
        return False
    durable.sync_directory(os.path.join(root, FOLDER))
    return True


def _path(root: str, place: tuple[str, int]) -> str:
    return os.path.join(root, FOLDER, f"{place[0]}~{place[1]:010d}.pin")
