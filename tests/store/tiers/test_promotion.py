"""Copies to the next tier: whole, in order, repeatable, and never of what is damaged."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nbrewind.errors import StoreFormatError, StoreNotWritable
from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.store.config import create as make_store
from nbrewind.store.epochs import Condemned, Epoch
from nbrewind.store.local import LocalStore
from nbrewind.store.opening import open_store
from nbrewind.store.remote.files import Unreachable
from nbrewind.store.remote.folder import FolderFiles
from nbrewind.store.remote.retrying import Patience
from nbrewind.store.tiers.promoter import Promoter, Step, first_pause
from nbrewind.store.tiers.promotion import Promotion
from nbrewind.testing.store_conformance import commit, ref_body

AT_ONCE = Patience(attempts=4, sleep=lambda _: None)


@pytest.fixture
def chain(tmp_path: Path) -> tuple[str, str]:
    return f"{tmp_path}/fast", f"{tmp_path}/shared"


class Failing(FolderFiles):
    """Refuses every write that `refuse` says."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.calls = 0
        self.refuse = lambda call: False

    def _check(self) -> None:
        self.calls += 1
        if self.refuse(self.calls):
            raise Unreachable("slow down")

    def write(self, name: str, content: bytes) -> None:
        self._check()
        super().write(name, content)

    def claim(self, name: str, content: bytes) -> bool:
        self._check()
        return super().claim(name, content)


def fill(place: str, count: int) -> None:
    with open_store(place) as store:
        for i in range(count):
            writer = store.begin()
            blob = writer.put_blob(random.Random(i).randbytes(LEAF_BYTES + i))
            writer.commit(ref_body(writer.put("record", blob.digest), source_digest=str(i)))


def test_a_promoted_store_is_the_same_to_the_byte(chain: tuple[str, str]) -> None:
    fill(chain[0], 5)
    done = Step(*chain).run()
    assert (done.packs, done.refs) == (5, 5)
    for folder in ("packs", "refs"):
        files = [p.relative_to(chain[0]) for p in Path(chain[0], folder).rglob("*.*")]
        assert files
        for path in files:
            assert Path(chain[1], path).read_bytes() == Path(chain[0], path).read_bytes()


def test_what_is_there_is_not_copied_again(chain: tuple[str, str]) -> None:
    fill(chain[0], 3)
    step = Step(*chain)
    step.run()
    assert step.run().bytes == 0
    assert Step(*chain).run().bytes == 0
    with open_store(chain[0]) as store:
        commit(store, b"new")
    assert (step.run().refs, step.missing_refs()) == (1, 0)


def test_refusals_are_tried_again_with_fewer_writes_at_a_time(chain: tuple[str, str]) -> None:
    fill(chain[0], 12)
    make_store(chain[1])
    target = Failing(chain[1])
    target.refuse = lambda call: call % 5 == 0
    done = Promotion(FolderFiles(chain[0]), target, AT_ONCE).run()
    assert (done.packs, done.refs) == (12, 12)
    assert done.refusals


def test_no_ref_goes_before_all_packs_are_there(chain: tuple[str, str]) -> None:
    fill(chain[0], 6)
    make_store(chain[1])
    target = Failing(chain[1])
    target.refuse = lambda call: call > 4
    promotion = Promotion(FolderFiles(chain[0]), target, AT_ONCE)
    with pytest.raises(Unreachable):
        promotion.run()
    assert not list(Path(chain[1]).glob("refs/*/*"))
    target.refuse = lambda call: False
    done = promotion.run()
    assert done.refs == 6
    assert done.packs < 6, "what was copied is not copied again"


def test_a_damaged_pack_is_not_copied_nor_a_ref_that_needs_it(chain: tuple[str, str]) -> None:
    fill(chain[0], 3)
    packs = sorted(Path(chain[0]).glob("packs/*/*.pack"))
    data = bytearray(packs[0].read_bytes())
    data[5000] ^= 1
    packs[0].write_bytes(data)
    done = Step(*chain).run()
    assert (done.packs, done.refs, len(done.damaged)) == (2, 2, 2)
    with open_store(chain[1]) as store:
        assert store.info().damaged == ()
        assert all(store.has([ref.body.record]) for ref in store.refs())


def test_another_record_of_the_same_number_stays(chain: tuple[str, str]) -> None:
    with open_store(chain[0]) as store:
        commit(store, b"here")
    with open_store(chain[1]) as store:
        there = commit(store, b"there")
        commit(store, b"also there")
    step = Step(*chain)
    assert step.run().refs == 0, "the number is taken: nothing is missing"
    with open_store(chain[1]) as store:
        assert there in store.refs()


def test_a_race_for_a_number_is_told(chain: tuple[str, str]) -> None:
    fill(chain[0], 1)
    make_store(chain[1])
    promotion = Promotion(FolderFiles(chain[0]), FolderFiles(chain[1]))
    promotion.missing()
    with open_store(chain[1]) as store:
        commit(store, b"another writer was faster")
    done = promotion.run()
    assert (done.refs, len(done.conflicts)) == (0, 1)
    assert promotion.run().conflicts == []


def test_a_store_of_an_older_format_gets_nothing(chain: tuple[str, str]) -> None:
    fill(chain[0], 1)
    golden = Path(__file__).resolve().parents[2] / "data" / "golden" / "store-format-1" / "store"
    os.mkdir(chain[1])
    Path(chain[1], "CONFIG").write_bytes((golden / "CONFIG").read_bytes())
    with pytest.raises(StoreFormatError, match="format 1"):
        Step(*chain).run()


def test_a_promoter_waits_and_says_so_once(
    chain: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    fill(chain[0], 2)

    class Broken(Step):
        broken = True

        def run(self):  # type: ignore[no-untyped-def]
            if self.broken:
                raise StoreNotWritable("it is read-only")
            return super().run()

    step = Broken(*chain)
    promoter = Promoter([step], Patience(first=1.0))
    for now in range(0, 5000, 10):
        assert not promoter.run(float(now))
    assert len([r for r in caplog.records if "wait: it is read-only" in r.message]) == 1
    step.broken = False
    assert promoter.run(10_000.0)
    assert promoter.failures == 0
    assert step.missing_refs() == 0


def test_a_pack_that_is_to_go_is_not_relied_on(chain: tuple[str, str]) -> None:
    fill(chain[0], 2)
    with open_store(chain[1]) as store, open_store(chain[0]) as source:
        # The same objects are there already, in packs that a collection has condemned.
        for pack in Path(chain[0]).glob("packs/*/*.pack"):
            FolderFiles(chain[1]).write(str(pack.relative_to(chain[0])), pack.read_bytes())
        packs = [bytes.fromhex(p.stem) for p in Path(chain[1]).glob("packs/*/*.pack")]
        assert isinstance(store, LocalStore)
        epoch = store.epochs.newest()
        condemned = {pack: Condemned(epoch.number + 1, 0.0) for pack in packs}
        store.epochs.publish(Epoch(number=epoch.number + 1, condemned=condemned))
        assert Step(*chain).run().refs == 2
        store.follow_epochs(look=True)
        for ref in source.refs():
            assert any(store.is_staying(place.pack) for place in store.copies_of(ref.body.record))


def test_two_may_copy_at_once(chain: tuple[str, str]) -> None:
    fill(chain[0], 20)
    steps = [Step(*chain) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(Step.run, steps))
    assert [one.conflicts for one in done] == [[], [], []]
    with open_store(chain[1]) as store:
        assert len(store.refs()) == 20
        assert store.info().damaged == ()


def test_tasks_of_an_array_begin_at_random_times(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(first_pause() for _ in range(100)) < 1
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "7")
    pauses = [first_pause() for _ in range(1000)]
    assert min(pauses) < 1 < 9 < max(pauses)
    assert len(set(pauses)) > 900


def test_pauses_are_not_drawn_from_the_users_generator() -> None:
    before = random.getstate()
    first_pause()
    Patience().pause(3)
    assert random.getstate() == before
