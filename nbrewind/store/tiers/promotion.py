"""Copying to the next tier what it does not have: packs first, then the refs that need them.

What is missing is seen from the files themselves, so there is no list of things to do that
could be lost, and everything can be repeated. Refs are listed before packs: whatever a ref of
that listing needs is in a pack of the later one. Packs are verified before they are sent, refs
are copied to the byte, with their signatures and numbers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Literal

import msgspec

from nbrewind.errors import ObjectDamaged, StoreError
from nbrewind.model.blobs import ObjectId
from nbrewind.store import refs
from nbrewind.store.packs import ENTRY, entry_at, index_from
from nbrewind.store.refs import Place
from nbrewind.store.remote.catalog import PACKS, pack_name, pack_of
from nbrewind.store.remote.files import Files, Unreachable
from nbrewind.store.remote.listing import FOLDER, ref_name
from nbrewind.store.remote.reader import content_of
from nbrewind.store.remote.retrying import Patience
from nbrewind.store.tiers.guard import Guard
from nbrewind.store.tiers.pace import Pace

_log = logging.getLogger(__name__)

_MOST_BYTES = 192 * 1024 * 1024
"""Of packs in memory, besides the last one begun."""

Outcome = Literal["copied", "conflict", "unreadable"]


class Promoted(msgspec.Struct, kw_only=True):
    """What was copied to a tier, and what was not."""

    packs: int = 0
    refs: int = 0
    bytes: int = 0
    """Of packs and refs."""
    seconds: float = 0.0
    refusals: int = 0
    """Writes that were tried again."""
    width: int = 1
    """Most packs that were on their way at a time."""
    conflicts: list[str] = []
    """Refs whose number another record has in that tier."""
    damaged: list[str] = []
    """Packs that are not sound, and refs that need one of them; they were not copied."""


class TierPromoted(Promoted, kw_only=True):
    """What `nbrewind store promote` did for one tier."""

    location: str
    missing_refs: int = 0
    """Records that are still not there."""
    problem: str = ""


class PromoteReport(msgspec.Struct, kw_only=True):
    """What `nbrewind store promote` did."""

    tiers: list[TierPromoted]

    @property
    def complete(self) -> bool:
        """Every tier has every record."""
        return not any(t.problem or t.missing_refs or t.conflicts or t.damaged for t in self.tiers)


def packs_of(files: Files) -> dict[ObjectId, int]:
    """The packs among some files, with their sizes."""
    found = ((pack_of(name), size) for name, size in files.names(PACKS))
    return {pack: size for pack, size in found if pack is not None}


def refs_of(files: Files) -> set[Place]:
    """The places of the refs among some files."""
    return set(_places(name for name, _ in files.names(FOLDER)))


def _places(names: Iterable[str]) -> Iterator[Place]:
    for name in names:
        lineage, _, file = name.removeprefix(f"{FOLDER}/").partition("/")
        seq = refs.sequence(file)
        if seq is not None:
            yield lineage, seq


def verify_pack(content: bytes, pack: ObjectId, place: str) -> None:
    """Make sure that a pack is what its name says, to the last object.

    Raises:
        ObjectDamaged: it is not.
    """
    index = index_from(lambda length: (content[-length:], len(content)), pack, place)
    view = memoryview(content)
    for number in range(len(index) // ENTRY.size):
        entry = entry_at(index, number)
        try:
            content_of(entry, view[entry.offset : entry.offset + entry.stored])
        except ObjectDamaged as exc:
            name = entry.oid.hex()[:16]
            raise ObjectDamaged(f"object {name} in {place} is damaged: {exc}") from exc


class Promotion:
    """Copies from one tier to the next, pass after pass.

    Args:
        source: The files to copy from.
        target: Those to copy to; its requests should not be repeated below this class, which
            has to see them fail.
        patience: How long a refusal is endured before a pass ends.
        guard: Keeps the target's collector away from what is copied.
    """

    def __init__(
        self,
        source: Files,
        target: Files,
        patience: Patience | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.pace = Pace()
        self._guard = guard or Guard()
        self._patience = patience or Patience()
        self._packs_there: set[ObjectId] | None = None
        self._refs_there: set[Place] = set()
        self._given_up: set[Place] = set()

    def missing(self) -> tuple[list[Place], dict[ObjectId, int]]:
        """Refs and packs that the target does not have, as far as is known without asking again.

        Raises:
            OSError: one side cannot be listed.
        """
        wanted = refs_of(self.source)
        packs = packs_of(self.source)
        if self._packs_there is None:
            there = set(packs_of(self.target))
            self._refs_there = refs_of(self.target)
            self._packs_there = there
        return (
            sorted(wanted - self._refs_there - self._given_up),
            {pack: size for pack, size in packs.items() if pack not in self._packs_there},
        )

    def run(self) -> Promoted:
        """Copy what is missing now.

        Raises:
            OSError: the target does not take it, or one side cannot be read; what was copied so
                far is not copied again.
            StoreNotWritable: the target's collector removed something that a ref needs.
        """
        done = Promoted()
        started = time.monotonic()
        try:
            self._guard.begin()
            wanted, packs = self.missing()
            if wanted:
                assert self._packs_there is not None
                self._guard.hold(packs)
                self._guard.rely_on(self._packs_there)
                bad = self._copy_packs(packs, done)
                self._copy_refs(wanted, bad, done)
        except (OSError, StoreError):
            self._packs_there = None  # it may be another one when it comes back
            raise
        finally:
            self._guard.end()
            done.seconds = time.monotonic() - started
            done.width = self.pace.peak
        return done

    def _copy_packs(self, packs: dict[ObjectId, int], done: Promoted) -> set[ObjectId]:
        """Copy packs, several at a time; returns those that are not sound."""
        assert self._packs_there is not None
        bad: set[ObjectId] = set()
        waiting = list(reversed(packs))
        failures = 0
        under_way: dict[Future[int], ObjectId] = {}
        with ThreadPoolExecutor(self.pace.most, "nbrewind-promote") as workers:
            self.pace.begin(time.monotonic())
            while waiting or under_way:
                loaded = sum(packs[pack] for pack in under_way.values())
                while waiting and len(under_way) < self.pace.width and loaded <= _MOST_BYTES:
                    pack = waiting.pop()
                    loaded += packs[pack]
                    under_way[workers.submit(self._copy_pack, pack)] = pack
                ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
                refused = False
                for future in ended:
                    pack = under_way.pop(future)
                    try:
                        size = future.result()
                    except FileNotFoundError:
                        continue  # it was collected meanwhile
                    except ObjectDamaged as exc:
                        _log.warning("not copied to %s: %s", self.target.location, exc)
                        done.damaged.append(str(exc))
                        bad.add(pack)
                    except Unreachable:
                        refused = True
                        waiting.append(pack)
                        if failures + 1 >= self._patience.attempts:
                            raise
                    else:
                        failures = 0
                        self._packs_there.add(pack)
                        done.packs += 1
                        done.bytes += size
                        self.pace.wrote(size, time.monotonic())
                if refused:
                    failures += 1
                    done.refusals += 1
                    self.pace.refused(time.monotonic())
                    self._patience.sleep(self._patience.pause(failures))
        return bad

    def _copy_pack(self, pack: ObjectId) -> int:
        name = pack_name(pack)
        content = self.source.read(name)
        verify_pack(content, pack, f"{self.source.location}/{name}")
        self.target.write(name, content)
        return len(content)

    def _copy_refs(self, places: list[Place], bad: set[ObjectId], done: Promoted) -> None:
        with ThreadPoolExecutor(self.pace.most, "nbrewind-promote") as workers:
            copies = workers.map(lambda place: self._copy_ref(place, bad), places)
            for place, (outcome, size) in zip(places, copies, strict=True):
                name = f"{place[0]}/{place[1]}"
                if outcome == "copied":
                    self._refs_there.add(place)
                    done.refs += 1
                    done.bytes += size
                elif outcome == "conflict":
                    self._given_up.add(place)
                    _log.warning("%s has another ref %s", self.target.location, name)
                    done.conflicts.append(name)
                elif size:
                    self._given_up.add(place)
                    done.damaged.append(f"the ref {name} needs a pack that is damaged")

    def _copy_ref(self, place: Place, bad: set[ObjectId]) -> tuple[Outcome, int]:
        try:
            content = self.source.read(ref_name(*place))
            body, _ = refs.decode(content, *place)
        except (FileNotFoundError, ObjectDamaged):
            return "unreadable", 0  # withdrawn, or still being written
        if not bad.isdisjoint(body.objects):
            return "unreadable", len(content)
        claimed = self._patience.run(lambda: self.target.claim(ref_name(*place), content))
        if claimed:
            try:
                self._guard.confirm(body.record)
            except (StoreError, OSError):
                self.target.remove(ref_name(*place))
                raise
        return ("copied" if claimed else "conflict"), len(content)
