"""Epochs: what a store's collectors have decided, for every session to know.

`epochs/<number>.epoch` is made by one collection, exclusively, and says which packs are
condemned: nobody may rely on them any more. The newest one counts. A store without any is
in epoch 0, in which no pack is condemned.
"""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections.abc import Mapping

import msgspec

from nbrewind.errors import ObjectDamaged, StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.store import durable
from nbrewind.store.rules import Sighting
from nbrewind.store.sealed import seal, unseal

_log = logging.getLogger(__name__)

MAGIC = b"NBRWEPO\x01"
FOLDER = "epochs"

_NAME = re.compile(r"([0-9]{10})\.epoch")
_KEPT = 3
"""Epochs that are left when a new one is made: somebody may be reading the last but one."""


class Condemned(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a condemned pack. Times are the file system's, in seconds."""

    epoch: int
    """The one that condemned it."""
    since: float
    trashed: float | None = None
    """When it was moved to trash; it stays condemned while it is there."""


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """Since when a collector has seen a lease unchanged: a `rules.Sighting`."""

    counter: int
    observer: str
    at: float

    def sighting(self) -> Sighting:
        """As the rules have it."""
        return Sighting(self.counter, self.observer, self.at)


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """The state of collection at one time."""

    number: int = 0
    condemned: Mapping[ObjectId, Condemned] = {}
    seen: Mapping[str, Seen] = {}
    """By session."""


class Epochs:
    """The epochs of one store."""

    def __init__(self, root: str) -> None:
        self._folder = os.path.join(root, FOLDER)
        self._names: list[str] = []
        self._newest = Epoch()

    def newest(self) -> Epoch:
        """The newest epoch; looks every time, reads only what is new.

        Raises:
            StoreNotWritable: it cannot be found out.
        """
        try:
            names = sorted(filter(_NAME.fullmatch, os.listdir(self._folder)), reverse=True)
        except FileNotFoundError:
            return self._newest
        except OSError as exc:
            raise durable.not_writable(self._folder, exc) from exc
        if names != self._names:
            for name in names:
                epoch = self._read(name)
                if epoch is not None:
                    if epoch.number >= self._newest.number:
                        self._newest = epoch
                        self._names = names
                    break
        return self._newest

    def publish(self, epoch: Epoch) -> None:
        """Make an epoch the newest one, durably.

        Raises:
            StoreNotWritable: another collection has made one meanwhile; this one must decide anew.
            OSError: it cannot be written; it does not count.
        """
        durable.make_directory(self._folder)
        path = os.path.join(self._folder, f"{epoch.number:010d}.epoch")
        if any(int(name[:10]) >= epoch.number for name in self._listed()):
            raise _another(self._folder)
        try:
            fd = durable.create(path)
        except FileExistsError:
            raise _another(self._folder) from None
        try:
            # Readers skip it until it is whole; until then nothing was decided.
            durable.write_all(fd, [seal(MAGIC, epoch)])
            durable.sync_file(fd)
        except OSError:
            durable.discard(path)
            raise
        finally:
            os.close(fd)
        durable.sync_directory(self._folder)
        for name in sorted(self._listed())[:-_KEPT]:
            durable.discard(os.path.join(self._folder, name))

    def free_number(self) -> int:
        """The number of the next epoch: after any, whole or not."""
        return max((int(name[:10]) for name in self._listed()), default=0) + 1

    def _listed(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if _NAME.fullmatch(name)]
        except FileNotFoundError:
            return []

    def _read(self, name: str) -> Epoch | None:
        try:
            with open(os.path.join(self._folder, name), "rb") as file:
                return unseal(MAGIC, file.read(), Epoch)
        except FileNotFoundError:
            return None
        except (OSError, ObjectDamaged) as exc:
            _log.info("the epoch %s was skipped: %s", name, exc)
            return None


def _another(folder: str) -> StoreNotWritable:
    return StoreNotWritable(f"another collection is at work in {folder}: run this one again")


def store_time(root: str) -> float:
    """What time it is for the file system that a store is on: no two clocks are compared.

    Raises:
        OSError: nothing can be written there.
    """
    path = os.path.join(root, "tmp", f"{uuid.uuid4().hex}.time")
    fd = durable.create(path)
    try:
        os.write(fd, b"?")
        return os.fstat(fd).st_mtime
    finally:
        os.close(fd)
        durable.discard(path)
