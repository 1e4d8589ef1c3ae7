"""A model of the store in memory: writers and a collector as generators, one step at a time.

Steps have the names they have in `nbrewind.store.rules`, whose decisions are the ones
made here. Everything else is as bad as it may be: any actor can stop between two steps,
for a while or for ever; a lease can be judged expired at any time (the judge's clock
jumped); grace and the time in trash are over whenever chance says so; a reply can be
lost, so that a step is done again that was done already.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from nbrewind.store import rules

OBJECTS = 6
WRITERS = 3


@dataclass(frozen=True)
class Ingredients:
    """What keeps the store from losing data; each can be left out."""

    two_phases: bool = True
    """Condemn, wait for everybody to acknowledge, look again, remove."""
    own_packs_held: bool = True
    """A session holds what it has written itself, not only what it found."""
    fencing: bool = True
    """Whose lease is ignored can find out."""
    validation: bool = True
    """A commit looks again after its ref is visible."""


@dataclass
class Lease:
    """A session's lease."""

    epoch: int | None = None
    holds: frozenset[int] = frozenset()
    packs: frozenset[int] = frozenset()


@dataclass
class Ref:
    """A commit's ref; the record needs these objects."""

    needs: frozenset[int]
    lineage: int
    acknowledged: bool = False


class Loss(Exception):
    """Data that somebody was promised is gone."""


@dataclass
class World:
    """The file system."""

    packs: dict[int, frozenset[int]] = field(default_factory=dict)
    trash: dict[int, frozenset[int]] = field(default_factory=dict)
    refs: dict[int, Ref] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    fenced: set[str] = field(default_factory=set)
    epoch: int = 0
    condemned: dict[int, int] = field(default_factory=dict)
    names: int = 0

    def name(self) -> int:
        self.names += 1
        return self.names

    def staying(self) -> set[int]:
        """Objects in packs that are not condemned."""
        return set().union(*(self.packs[p] for p in self.packs if p not in self.condemned))

    def readable(self) -> set[int]:
        return set().union(*self.packs.values(), *self.trash.values())

    def check(self) -> None:
        """Whatever was acknowledged, and was not pruned, can be read."""
        there = self.readable()
        for ref in self.refs.values():
            if ref.acknowledged and not ref.needs <= there:
                raise Loss(f"an acknowledged record lost {ref.needs - there}")


def session(world: World, number: int, rng: random.Random, use: Ingredients) -> Iterator[None]:
    """A kernel that commits a few cells."""
    name = f"{number}.0"
    world.leases[name] = Lease()
    yield
    values: frozenset[int] = frozenset()  # what its namespace refers to
    own: frozenset[int] = frozenset()  # what of that it has written itself
    view: dict[int, frozenset[int]] = {}
    viewed = -1

    def renewed(name: str, holds: frozenset[int]) -> str:
        world.leases[f"{name}'"] = Lease(world.leases[name].epoch, holds)
        del world.leases[name]
        return f"{name}'"

    def held(more: frozenset[int] = frozenset()) -> frozenset[int]:
        return values | more if use.own_packs_held else (values | more) - own

    for _ in range(rng.randint(1, 4)):
        if name in world.fenced:
            name = renewed(name, held())
            yield
            values &= world.staying()  # the rest is not known any more
            yield
        # begin
        while True:
            began = world.epoch
            yield
            world.leases[name] = Lease(rules.acknowledges([began]), held())
            yield
            if world.epoch == began:
                break
            world.leases[name] = Lease(None, held())
            yield
        avoid = set(world.condemned)
        if began != viewed:
            view, viewed = dict(world.packs), began
            yield
        # put
        carried = frozenset(o for o in values if rng.random() < 0.7)
        written = frozenset(rng.sample(range(OBJECTS), rng.randint(1, 2)))
        novel = frozenset(
            o for o in written if not any(o in view[p] for p in view if p not in avoid)
        )
        yield
        needs = carried | written
        own |= novel
        # hold_packs
        pack = -sum(1 << oid for oid in novel)  # named by its objects
        packs = frozenset({pack}) if use.own_packs_held else frozenset()
        world.leases[name] = Lease(rules.acknowledges([began]), held(needs), packs)
        yield
        # name_packs
        if novel:
            world.packs[pack] = novel
            view[pack] = novel
            yield
        # publish
        ref = world.name()
        world.refs[ref] = Ref(needs, number)
        yield
        if rng.random() < 0.1 and ref in world.refs:  # its reply was lost: the second try finds it
            yield
        # validate
        sound = True
        since = began
        doubtful = pack in world.condemned
        while use.validation and rules.must_validate(
            since, world.epoch, fenced=name in world.fenced, doubtful=doubtful
        ):
            since, doubtful = world.epoch, False
            yield
            if name in world.fenced:
                name = renewed(name, held(needs))
                yield
                values &= world.staying() | needs
                yield
            at_risk = needs - world.staying()
            yield
            if not at_risk:
                continue
            copy = world.name()
            old = world.leases[name]
            world.leases[name] = Lease(old.epoch, held(needs), old.packs | {copy})
            yield
            sound = at_risk <= world.readable()
            if not sound:
                break
            world.packs[copy] = at_risk
            yield
        if not sound:
            world.refs.pop(ref, None)
            yield
            values &= world.staying()
            world.leases[name] = Lease(rules.acknowledges([]), held())
            yield
            continue
        # acknowledge
        if ref in world.refs:
            world.refs[ref].acknowledged = True
        world.check()
        values = frozenset(o for o in values | needs if rng.random() < 0.8)
        yield
        # release
        world.leases[name] = Lease(rules.acknowledges([]), held())
        yield
        if name not in world.fenced and not values <= world.readable():
            raise Loss(f"a live session lost {values - world.readable()}")
    if rng.random() < 0.5:
        world.leases.pop(name, None)  # closed


def collector(world: World, rng: random.Random, use: Ingredients) -> Iterator[None]:
    """Prunes now and then, and collects again and again."""
    expired: dict[str, Lease] = {}
    while True:
        if world.refs and rng.random() < 0.6:  # prune
            doomed = rng.choice(list(world.refs))
            del world.refs[doomed]
            yield
        # list_packs
        packs = dict(world.packs)
        yield
        # read_leases, fence
        standing: list[Lease] = []
        seen: set[str] = set()
        while unseen := sorted(world.leases.keys() - seen):  # a session may change its lease
            name = unseen[0]
            seen.add(name)
            if name in world.fenced and use.fencing:
                continue
            lease = world.leases[name]
            if expired.get(name) is lease or rng.random() < 0.15:  # as far as it can tell
                expired[name] = lease
                if use.fencing:
                    world.fenced.add(name)
                    yield
                continue
            standing.append(lease)
            yield
        # mark
        live = set().union(*(lease.holds for lease in standing))
        held = set().union(*(lease.packs for lease in standing))
        for lineage in range(WRITERS):  # names are listed folder by folder
            for ref in list(world.refs.values()):
                if ref.lineage == lineage:
                    live |= ref.needs
            yield
        trash = dict(world.trash)
        condemned = dict(world.condemned)
        if live and rng.random() < 0.2:  # what lies scattered is copied together
            together = frozenset(rng.sample(sorted(live), rng.randint(1, len(live))))
            together &= frozenset().union(*packs.values(), *trash.values())
            copy = world.name()
            world.packs[copy] = packs[copy] = together
            held |= {copy}
            yield
        choice = rules.choose(
            {p: dict.fromkeys(objects, 1) for p, objects in {**packs, **trash}.items()},
            live,
            condemned=condemned,
            held=held,
            bound=rng.choice([0.01, 0.6]),
            small=[p for p in packs if rng.random() < 0.2],
        )
        # copy_live
        copied = frozenset().union(*choice.copy.values())
        if copied:
            world.packs[world.name()] = copied
            yield
        # remove
        if use.two_phases:
            epochs = [lease.epoch for lease in standing]
            due = [
                p
                for p, e in condemned.items()
                if rules.may_remove(e, epochs, waited=rng.random() < 0.8)
            ]
        else:
            due = [*condemned, *choice.condemn]
        for pack in due:
            if pack in world.packs:  # else a reply was lost, and it is in trash
                world.trash[pack] = world.packs.pop(pack)
            yield
        if rng.random() < 0.1:
            continue  # killed
        # condemn
        after = {p: e for p, e in condemned.items() if p in world.packs or p in world.trash}
        after |= dict.fromkeys(choice.condemn, world.epoch + 1)
        if after != world.condemned:
            world.epoch, world.condemned = world.epoch + 1, after
        yield
        # purge: only what an earlier run has moved, so that its mark has seen it in trash
        for pack in trash:
            if rng.random() < 0.7:
                world.trash.pop(pack, None)
                world.check()
                yield
        yield


def run(seed: int, use: Ingredients) -> None:
    """One random interleaving. Raises `Loss`."""
    rng = random.Random(seed)
    world = World()
    writers = [session(world, number, rng, use) for number in range(WRITERS)]
    gc = collector(world, rng, use)
    asleep: dict[int, int] = {}
    for step in range(400):
        if not writers:
            break
        if rng.random() < 0.5:
            next(gc)
            continue
        at = rng.randrange(len(writers))
        if asleep.get(id(writers[at]), 0) > step:
            continue
        if rng.random() < 0.03:
            asleep[id(writers[at])] = step + rng.choice([30, 100, 10_000])
            continue
        try:
            next(writers[at])
        except StopIteration:
            del writers[at]
    for _ in range(60):
        next(gc)
    world.trash.clear()
    world.check()


def losses(seeds: range, use: Ingredients) -> int:
    """How many of these runs lose data."""
    lost = 0
    for seed in seeds:
        try:
            run(seed, use)
        except Loss:
            lost += 1
    return lost
