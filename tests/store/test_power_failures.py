"""L4: whatever a power failure takes of what was not synchronised, acknowledged is acknowledged."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from nbrewind.store import durable, ending
from nbrewind.testing.faults import Fault, Journal, Layer, Plan, restore
from nbrewind.testing.faults.campaign import power_failure

SAMPLE = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))

UNSYNCED_NAME = Fault(operation="sync directory", errno=errno.EIO, path="s/packs")
"""A directory is made, but making its name durable fails; another commit relies on it later."""


def failures(
    folder: Path, seeds: range, moments: int = 4, fault: Fault | None = None
) -> Iterator[str]:
    for seed in seeds:
        for what in power_failure(seed, folder / str(seed), moments, fault):
            yield f"{seed}: {what}"


@pytest.mark.case(53)
def test_nothing_acknowledged_is_lost_when_the_power_fails(tmp_path: Path) -> None:
    assert list(failures(tmp_path, range(6))) == []


def test_nothing_is_lost_if_a_directory_could_not_be_synchronised_before(tmp_path: Path) -> None:
    assert list(failures(tmp_path, range(100, 105), fault=UNSYNCED_NAME)) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", [None, UNSYNCED_NAME])
def test_a_thousand_power_failures(tmp_path: Path, fault: Fault | None) -> None:
    assert list(failures(tmp_path, range(int(250 * SAMPLE)), fault=fault)) == []


def make_and_forget(path: str) -> bool:
    try:
        os.mkdir(path)
    except FileExistsError:
        return False
    durable.sync_directory(os.path.dirname(path))
    return True


@pytest.mark.parametrize(
    ("guard", "without", "fault"),
    [
        (durable, ("sync_file", lambda fd: None), None),
        (durable, ("sync_directory", lambda path: None), None),
        (ending.Ending, ("name_packs", None), None),
        (durable, ("make_directory", make_and_forget), UNSYNCED_NAME),
    ],
    ids=["contents", "names", "packs before refs", "names made by others"],
)
def test_each_synchronisation_is_needed(
    tmp_path: Path, guard: object, without: tuple[str, object], fault: Fault | None
) -> None:
    if guard is ending.Ending:
        real = ending.Ending.name_packs

        def name_packs(self: ending.Ending) -> set[str]:
            real(self)
            return set()

        without = ("name_packs", name_packs)
    with patch.object(guard, *without):
        assert any("lost" in w or "readable" in w for w in failures(tmp_path, range(80), 8, fault))


def test_the_model_keeps_what_was_synchronised_and_any_part_of_the_rest(tmp_path: Path) -> None:
    root = tmp_path / "r"
    root.mkdir()
    journal = Journal(str(root))
    with Layer(root, Plan(), journal).installed():
        for name in ("durable", "unnamed", "unwritten"):
            fd = durable.create(str(root / name))
            durable.write_all(fd, [name.encode() * 3000])
            if name != "unwritten":
                durable.sync_file(fd)
            durable.close(fd)
            if name == "durable":
                durable.sync_directory(str(root))
    seen: dict[str, set[bytes | None]] = {"durable": set(), "unnamed": set(), "unwritten": set()}
    for seed in range(200):
        tree = journal.after_power_failure(len(journal), random.Random(seed))
        for name, found in seen.items():
            found.add(tree.get(name))
    assert seen["durable"] == {b"durable" * 3000}
    assert seen["unnamed"] == {b"unnamed" * 3000, None}
    assert {None, b"", b"unwritten" * 3000} < seen["unwritten"]
    restore(journal.after_power_failure(0, random.Random(0)), str(tmp_path / "before"))
    assert os.listdir(tmp_path / "before") == []
