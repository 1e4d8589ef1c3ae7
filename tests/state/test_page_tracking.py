"""Keys of large buffers whose pages are followed are those of the bytes, however they were written.

The sample that is hashed in any case is switched off in most tests: it would hide what they are
about.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.state import direct_writers, page_tracking
from nbrewind.state.page_costs import Costs, measure
from nbrewind.state.page_tracking import PageTracker, address_of
from nbrewind.state.written_pages import PAGE, WrittenPages, is_private_anonymous
from nbrewind.store.leaves import LeafHasher, LeafKeys

np = pytest.importorskip("numpy")

try:
    WrittenPages().close()
except OSError as problem:
    pytest.skip(f"pages cannot be followed here: {problem}", allow_module_level=True)

LEAVES = 24
SIZE = LEAVES * LEAF_BYTES

MREMAP_MAYMOVE, MREMAP_FIXED = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mremap.restype = ctypes.c_void_p


def _mremap(old: int, old_size: int, size: int, flags: int, new: int = 0) -> int:
    arguments = (ctypes.c_void_p(old), ctypes.c_size_t(old_size), ctypes.c_size_t(size))
    found: int = _libc.mremap(*arguments, flags, ctypes.c_void_p(new))
    assert found not in (None, 2**64 - 1), os.strerror(ctypes.get_errno())
    return found


def _madvise(address: int, size: int, advice: int) -> None:
    assert not _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice)


def view_at(address: int, size: int) -> memoryview:
    """Some memory, without anything that keeps it."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


class Followed:
    """A tracker, and what it has to agree with."""

    def __init__(self, mode: str = "always", least_bytes: int = 1) -> None:
        self.hasher = LeafHasher()
        self.tracker = PageTracker(self.hasher, mode, least_bytes)

    def look(self, view: Any) -> int:
        """Look at a buffer; returns how many of its leaves were not hashed."""
        raw = memoryview(view).cast("B")
        before = self.tracker.skipped
        keys: LeafKeys = self.tracker.keys(raw)
        assert keys == self.hasher.keys(raw)
        return -(-(self.tracker.skipped - before) // LEAF_BYTES)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    """A tracker that follows whatever it can, and trusts it."""
    monkeypatch.setattr(PageTracker, "_sample", lambda self, known: [])
    found = Followed()
    yield found
    assert found.tracker.is_on, "it gave up"
    found.tracker.close()


def anonymous(size: int = SIZE) -> mmap.mmap:
    """Fresh private memory full of ones."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    ctypes.memset(address_of(memoryview(memory)), 1, size)
    return memory


def _assign(view: memoryview, at: int) -> None:
    view[at] = 77


def _read_from_file(view: memoryview, at: int) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"M")
        file.seek(0)
        assert os.readv(file.fileno(), [view[at : at + 1]]) == 1


def _receive(view: memoryview, at: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"M")
        assert ours.recv_into(view[at : at + 1]) == 1


def _read_around_the_cache(view: memoryview, at: int) -> None:
    start = at - (address_of(view) + at) % PAGE
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"M" * PAGE)
        file.flush()
        os.fsync(file.fileno())
        try:
            fd = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            pytest.skip("the file system has no O_DIRECT")
        try:
            assert os.readv(fd, [view[start : start + PAGE]]) == PAGE
        finally:
            os.close(fd)


def _through_proc(view: memoryview, at: int) -> None:
    fd = os.open("/proc/self/mem", os.O_RDWR)
    try:
        assert os.pwrite(fd, b"M", address_of(view) + at) == 1
    finally:
        os.close(fd)


_WRITES_ELSEWHERE = """
import ctypes, sys
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
text = ctypes.create_string_buffer(b"M")
mine = Part(ctypes.addressof(text), 1)
theirs = Part(int(sys.argv[2]), 1)
libc = ctypes.CDLL(None, use_errno=True)
done = libc.process_vm_writev(int(sys.argv[1]), ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
sys.exit(0 if done == 1 else ctypes.get_errno())
"""


def _from_another_process(view: memoryview, at: int) -> None:
    _libc.prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # whoever of us may trace us
    place = str(address_of(view) + at)
    code = subprocess.run(
        [sys.executable, "-c", _WRITES_ELSEWHERE, str(os.getpid()), place], check=False
    ).returncode
    if code:
        pytest.skip(f"no access to other processes: {os.strerror(code)}")


def _by_a_thread(view: memoryview, at: int) -> None:
    thread = threading.Thread(target=_assign, args=(view, at))
    thread.start()
    thread.join()


def _with_numpy(view: memoryview, at: int) -> None:
    np.frombuffer(view, np.uint8)[at : at + 1] += 5


def _given_back(view: memoryview, at: int) -> None:
    _madvise((address_of(view) + at) // PAGE * PAGE, PAGE, mmap.MADV_DONTNEED)


def _much_given_back(view: memoryview, at: int) -> None:
    start = -(-address_of(view) // PAGE) * PAGE
    _madvise(start, 4 * 2**20, mmap.MADV_DONTNEED)  # whole page tables


def _given_back_and_read(view: memoryview, at: int) -> None:
    _given_back(view, at)
    assert view[at] == 0


def _freed_lazily(view: memoryview, at: int) -> None:
    _madvise((address_of(view) + at) // PAGE * PAGE, PAGE, mmap.MADV_FREE)
    _madvise((address_of(view) + at) // PAGE * PAGE, PAGE, 21)  # MADV_PAGEOUT


def _written_after_a_fork(view: memoryview, at: int) -> None:
    child = os.fork()
    if not child:
        view[at + 3 * LEAF_BYTES] = 1  # in a copy of its own
        os._exit(0)
    view[at] = 78
    os.waitpid(child, 0)


WAYS: list[Callable[[memoryview, int], None]] = [
    _assign,
    _with_numpy,
    _by_a_thread,
    _read_from_file,
    _receive,
    _read_around_the_cache,
    _through_proc,
    _from_another_process,
    _given_back,
    _much_given_back,
    _given_back_and_read,
    _freed_lazily,
    _written_after_a_fork,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.strip("_"))
@pytest.mark.parametrize("shift", [0, 16], ids=["aligned", "shifted"])
def test_a_write_of_any_kind_is_seen(
    followed: Followed, way: Callable[[memoryview, int], None], shift: int
) -> None:
    with anonymous(SIZE + PAGE) as memory:
        view = memoryview(memory)[shift : shift + SIZE]
        followed.look(view)
        assert followed.look(view) == LEAVES
        for at in (5 * LEAF_BYTES + 7 * PAGE, 5 * LEAF_BYTES, 9 * LEAF_BYTES - PAGE):
            way(view, at)
            # A leaf that does not begin with a page shares one with the leaf before.
            fewest = 3 if way is _much_given_back else LEAVES - 2
            assert fewest <= followed.look(view) < LEAVES or way is _freed_lazily
            assert followed.look(view) == LEAVES
        view.release()


@pytest.mark.parametrize("at", [0, 1, 4079, 4080, SIZE - 1, SIZE - 40, SIZE - 5000])
@pytest.mark.parametrize("shift", [0, 16, 4095])
def test_both_ends_are_followed(followed: Followed, at: int, shift: int) -> None:
    with anonymous(SIZE + PAGE) as memory:
        view = memoryview(memory)[shift : shift + SIZE]
        followed.look(view)
        assert followed.look(view) == LEAVES
        view[at] = 2
        assert LEAVES - 2 <= followed.look(view) < LEAVES
        assert followed.look(view) == LEAVES
        view.release()


def test_every_byte_of_some_pages_is_followed(followed: Followed) -> None:
    size = 3 * LEAF_BYTES
    with anonymous(size + PAGE) as memory:
        view = memoryview(memory)[100 : 100 + size]
        followed.look(view)
        for at in range(LEAF_BYTES - 5000, LEAF_BYTES + 5000, 97):
            view[at] ^= 0xFF
            assert followed.look(view) < 3
        view.release()


def test_random_writes_are_followed(followed: Followed) -> None:
    random = np.random.default_rng(0)
    with anonymous(SIZE + PAGE) as memory:
        view = memoryview(memory)[48 : 48 + SIZE - 700]
        array = np.frombuffer(view, np.uint8)
        for _ in range(150):
            start = int(random.integers(len(array)))
            length = int(random.choice([1, 30, PAGE, 100_000, 0]))
            array[start : start + length] = random.integers(256)
            followed.look(view)
        del array
        view.release()


def test_memory_that_is_read_only_can_be_followed(followed: Followed) -> None:
    data = bytes(bytearray(SIZE))
    followed.look(data)
    assert followed.look(data) == LEAVES


def test_a_freed_array_and_the_next_at_its_place_are_not_confused(followed: Followed) -> None:
    # numpy keeps nothing of this size; the C library takes it from the heap once it has been
    # given some back, and the same place again and again.
    places = set()
    for i in range(12):
        array = np.empty(SIZE, np.uint8)
        array[:: PAGE // 2] = i
        places.add(address_of(memoryview(array)))
        followed.look(array)
        followed.look(array)
        del array
        gc.collect()
    assert len(places) < 12


def test_another_mapping_at_the_same_place_is_another_one(followed: Followed) -> None:
    memory = anonymous()
    place = address_of(memoryview(memory))
    followed.look(memory)
    assert followed.look(memory) == LEAVES
    other = anonymous()
    ctypes.memset(address_of(memoryview(other)), 9, SIZE)
    # Moved there, not written there.
    assert _mremap(address_of(memoryview(other)), SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place)
    assert followed.look(memory) == 0
    assert memory[0] == 9
    followed.look(memory)  # it is registered again
    assert followed.look(memory) == LEAVES
    for kept in (memory, other):  # one of them was moved away: neither is unmapped twice
        _forget(kept)


def _forget(memory: mmap.mmap) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


@pytest.mark.parametrize("followed_before", [False, True])
def test_a_followed_mapping_moved_over_a_followed_one_is_not_taken_for_it(
    followed: Followed, followed_before: bool
) -> None:
    memory, other = anonymous(), anonymous()
    place, source = (address_of(memoryview(found)) for found in (memory, other))
    ctypes.memset(source, 9, SIZE)
    for _ in range(2):
        followed.look(memory)
        if followed_before:
            followed.look(other)
    _mremap(source, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place)
    assert followed.look(memory) == 0
    for kept in (memory, other):
        _forget(kept)


def test_grown_and_moved_memory_is_hashed_anew(followed: Followed) -> None:
    memory = anonymous()
    place = address_of(memoryview(memory))
    _forget(memory)
    followed.look(view_at(place, SIZE))
    assert followed.look(view_at(place, SIZE)) == LEAVES
    moved = _mremap(place, SIZE, 2 * SIZE, MREMAP_MAYMOVE)
    view = view_at(moved, 2 * SIZE)
    view[3] = 9
    followed.look(view)
    view[SIZE + 3] = 9
    assert followed.look(view) == 2 * LEAVES - 1
    assert followed.look(view[:SIZE]) == 0
    assert followed.look(view[:SIZE]) == LEAVES
    view[5] = 11
    assert followed.look(view) == 0


def test_overlapping_buffers_do_not_hide_changes_from_each_other(followed: Followed) -> None:
    with anonymous(2 * SIZE) as memory:
        one, other = memoryview(memory)[:SIZE], memoryview(memory)[SIZE // 2 : 3 * SIZE // 2]
        for _ in range(2):
            followed.look(one)
            followed.look(other)
        memory[SIZE // 2 + 100] = 5
        followed.look(one)
        followed.look(other)
        memory[SIZE - 100] = 5
        followed.look(other)
        followed.look(one)
        one.release()
        other.release()


def test_neighbours_in_one_page_do_not_hide_changes_from_each_other(followed: Followed) -> None:
    with anonymous(2 * SIZE) as memory:
        middle = SIZE + 100
        one, other = memoryview(memory)[:middle], memoryview(memory)[middle:]
        for at in (middle - 1, middle, middle - 50, middle + 50):
            followed.look(one)
            followed.look(other)
            memory[at] ^= 0xFF
            followed.look(one)
            followed.look(other)
        assert followed.look(one) == LEAVES + 1
        assert followed.look(other) == LEAVES
        one.release()
        other.release()


def test_huge_pages_are_followed(followed: Followed) -> None:
    memory = mmap.mmap(-1, 4 * SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        ctypes.memset(address_of(memoryview(memory)), 1, 4 * SIZE)
        followed.look(memory)
        assert followed.look(memory) == 4 * LEAVES
        memory[9 * LEAF_BYTES + 5] = 2
        assert 4 * LEAVES - 8 <= followed.look(memory) < 4 * LEAVES
        memory.madvise(mmap.MADV_DONTNEED, 4 * 2**20, 8 * 2**20)
        assert followed.look(memory) < 4 * LEAVES
        assert followed.look(memory) <= 4 * LEAVES


def test_shared_memory_and_files_are_not_followed(followed: Followed, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        shared = mmap.mmap(-1, SIZE)
        mapped = mmap.mmap(file.fileno(), SIZE)
        private = mmap.mmap(file.fileno(), SIZE, flags=mmap.MAP_PRIVATE, prot=3)
        for memory in (shared, mapped, private):
            for _ in range(3):
                assert followed.look(memory) == 0
            memory.close()
        private = mmap.mmap(file.fileno(), SIZE, flags=mmap.MAP_PRIVATE, prot=3)
        followed.look(private)
        os.pwrite(file.fileno(), b"x", LEAF_BYTES)
        followed.look(private)
        private.close()


def test_a_fork_follows_its_own_memory_and_leaves_its_parents_alone(followed: Followed) -> None:
    with anonymous() as memory:
        followed.look(memory)
        assert followed.look(memory) == LEAVES
        memory[5] = 9
        child = os.fork()
        if not child:
            code = 1
            try:
                assert followed.look(memory) == 0
                assert followed.look(memory) == LEAVES
                memory[LEAF_BYTES] = 3
                assert followed.look(memory) == LEAVES - 1
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert followed.look(memory) == LEAVES - 1


@pytest.mark.parametrize("shift", [0, 16])
@pytest.mark.parametrize(
    "at", [5 * LEAF_BYTES - 1, 5 * LEAF_BYTES + 8000, 6 * LEAF_BYTES, 6 * LEAF_BYTES + 8000, 0, -1]
)
def test_a_write_between_the_question_and_the_next_is_seen_later(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, shift: int, at: int
) -> None:
    with anonymous(SIZE + PAGE) as memory:
        view = memoryview(memory)[shift : shift + SIZE]
        followed.look(view)
        view[5 * LEAF_BYTES + 9000] = 5

        def write() -> bool:
            view[at] ^= 0xFF  # another thread, before pages are protected
            return False

        with monkeypatch.context() as patch:
            patch.setattr(direct_writers, "may_write", write)
            followed.tracker.keys(view)
        followed.look(view)
        view.release()


def test_writes_while_it_looks_are_seen_later(followed: Followed) -> None:
    array = np.frombuffer(anonymous(SIZE + PAGE), np.uint8)[16 : 16 + SIZE]
    stop = threading.Event()

    def write() -> None:
        random = np.random.default_rng(1)
        while not stop.is_set():
            start = int(random.integers(SIZE))
            array[start : start + int(random.choice([1, 5000]))] += 1

    for _ in range(5):
        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(15):
            followed.tracker.keys(memoryview(array))
        stop.set()
        for thread in threads:
            thread.join()
        stop.clear()
        followed.look(array)
        assert followed.look(array) == LEAVES


def test_tensors_are_followed(followed: Followed) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(SIZE // 4)
    raw = view_at(tensor.data_ptr(), SIZE)
    followed.look(raw)
    assert followed.look(raw) == LEAVES
    tensor[LEAF_BYTES // 2] += 1
    assert LEAVES - 2 <= followed.look(raw) < LEAVES
    tensor.mul_(2)
    followed.look(raw)
    tensor.resize_(SIZE)
    raw = view_at(tensor.data_ptr(), 4 * SIZE)
    followed.look(raw)
    tensor[-1] = 4
    followed.look(raw)


def test_nothing_is_followed_while_a_device_may_write(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with anonymous() as memory:
        followed.look(memory)
        monkeypatch.setattr(direct_writers, "may_write", lambda: True)
        assert followed.look(memory) == LEAVES  # nobody got any of it since
        memory[5] = 1
        assert followed.look(memory) == LEAVES - 1
        assert followed.look(memory) == 0
        monkeypatch.setattr(direct_writers, "may_write", lambda: False)
        followed.look(memory)
        assert followed.look(memory) == LEAVES


def test_files_through_which_devices_write_are_known(tmp_path: Path) -> None:
    assert not direct_writers.may_write()
    path = tmp_path / "file"
    path.write_bytes(b"x")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        pytest.skip("the file system has no O_DIRECT")
    assert direct_writers.may_write()
    os.close(fd)
    assert not direct_writers.may_write()


def test_rings_are_known_as_ways_for_devices() -> None:
    parameters = ctypes.create_string_buffer(120)
    fd = _libc.syscall(425, 8, parameters)
    if fd < 0:
        pytest.skip("no io_uring here")
    try:
        assert direct_writers.may_write()
    finally:
        os.close(fd)


def test_a_change_that_its_page_does_not_show_ends_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(page_tracking, "_SAMPLE", 1)
    followed = Followed()
    with anonymous() as memory:
        followed.look(memory)
        assert followed.look(memory) == LEAVES
        memory[9] = 9
        # As if another process had looked and protected the page again.
        pages = followed.tracker._pages
        assert pages is not None
        start = address_of(memoryview(memory))
        pages.protect(start, start + PAGE)
        assert followed.look(memory) == 0
        assert not followed.tracker.is_on
        assert "not seen" in caplog.text


def test_a_write_while_it_is_sampled_is_not_held_against_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_tracking, "_SAMPLE", 1)
    followed = Followed()
    with anonymous() as memory:
        followed.look(memory)
        honest = PageTracker._sample

        def sample(self: PageTracker, known: page_tracking.Known) -> list[int]:
            memory[LEAF_BYTES] ^= 0xFF  # another thread
            return honest(self, known)

        monkeypatch.setattr(PageTracker, "_sample", sample)
        assert followed.look(memory) == LEAVES - 1
        assert followed.tracker.is_on
    followed.tracker.close()


def test_it_is_off_unless_it_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(page_tracking.MODE_VARIABLE, raising=False)
    assert not PageTracker.configured(LeafHasher()).is_on
    for value, on in (("auto", True), ("always", True), ("yes", False), ("off", False)):
        monkeypatch.setenv(page_tracking.MODE_VARIABLE, value)
        assert PageTracker.configured(LeafHasher()).is_on is on


def test_a_system_that_cannot_do_it_is_silent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> WrittenPages:
        raise PermissionError("not allowed")

    monkeypatch.setattr(page_tracking, "WrittenPages", refuse)
    followed = Followed()
    with anonymous() as memory:
        assert followed.look(memory) == 0
        assert followed.look(memory) == 0
    assert not followed.tracker.is_on
    assert "cannot be followed" in caplog.text


def test_small_buffers_are_left_alone() -> None:
    followed = Followed(least_bytes=SIZE)
    with anonymous() as memory:
        view = memoryview(memory)[: SIZE - 1]
        for _ in range(3):
            assert followed.look(view) == 0
        view.release()
    assert followed.tracker._pages is None
    followed.tracker.close()


def test_the_cost_decides_what_is_followed() -> None:
    costs = Costs(scan=1e-8, protect=1e-8, fault=1e-6)
    size, hash_seconds = 500 * 10**6, 5e-11
    pages = size / PAGE
    assert costs.are_worthwhile(size, 0, 0, hash_seconds)
    assert costs.are_worthwhile(size, 0.01 * pages, 40, hash_seconds)
    assert not costs.are_worthwhile(size, 0.5 * pages, 950, hash_seconds)
    assert not costs.are_worthwhile(size, 900, 1900, hash_seconds), "a page in each leaf"


def test_buffers_are_followed_when_it_pays_and_not_when_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = Costs(scan=1e-9, protect=1e-9, fault=1e-6)
    monkeypatch.setattr(page_tracking, "measure", lambda pages: costs)
    followed = Followed("auto")
    with anonymous() as memory:
        # The first look knows nothing, the second what changed, from the third on it is followed.
        assert [followed.look(memory) for _ in range(4)] == [0, 0, 0, LEAVES]
        followed.tracker._hash_seconds = 1e-10
        for i in range(6):
            ctypes.memset(address_of(memoryview(memory)), i, SIZE)
            assert followed.look(memory) == 0
        memory[3] = 77
        assert followed.look(memory) == 0, "everything was written too often"
    followed.tracker.close()


def test_costs_can_be_measured() -> None:
    pages = WrittenPages()
    costs = measure(pages)
    assert costs.scan > 0
    assert costs.protect > 0
    assert costs.fault >= 0
    pages.close()


def test_which_memory_is_our_own() -> None:
    with anonymous() as memory, mmap.mmap(-1, SIZE) as shared:
        start, other = (address_of(memoryview(found)) for found in (memory, shared))
        assert is_private_anonymous(start, start + SIZE)
        assert not is_private_anonymous(other, other + SIZE)
        assert not is_private_anonymous(PAGE, 2 * PAGE)
