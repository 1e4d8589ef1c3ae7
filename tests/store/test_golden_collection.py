"""Files of collections as they were first written stay readable."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nbrewind.errors import ObjectDamaged
from nbrewind.store import epochs, leases, losses, pins
from nbrewind.store.sealed import seal, unseal

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "collection-1"
ONE, TWO = bytes(range(32)), bytes(range(32, 64))

SAMPLES: dict[str, tuple[bytes, msgspec.Struct]] = {
    "session.lease": (
        leases.MAGIC,
        leases.Lease(counter=7, epoch=3, holds=(ONE,), packs=(TWO,), vouches=("h~b~1~2~ab",)),
    ),
    "0000000003.epoch": (
        epochs.MAGIC,
        epochs.Epoch(
            number=3,
            condemned={
                ONE: epochs.Condemned(2, 1000.5, 2000.25),
                TWO: epochs.Condemned(3, 2000.25),
            },
            seen={"h~b~1~2~ab": epochs.Seen(7, "h:b", 12.5)},
        ),
    ),
    "record.pin": (
        pins.MAGIC,
        pins.Pin(lineage="abc", seq=4, record=ONE, notebook="n.ipynb", cell_id="c", note="why"),
    ),
    "random.lost": (losses.MAGIC, losses.Lost((ONE, TWO))),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_of_version_1_means_what_it_meant(name: str) -> None:
    magic, expected = SAMPLES[name]
    assert unseal(magic, (GOLDEN / name).read_bytes(), type(expected)) == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_not_whole_or_of_another_kind_is_refused(name: str) -> None:
    magic, value = SAMPLES[name]
    content = seal(magic, value)
    wrong = [content[:-1], b"", b"x" + content[1:], content[:7] + b"\x02" + content[8:]]
    flipped = bytearray(content)
    flipped[20] ^= 1
    for each in [*wrong, bytes(flipped)]:
        with pytest.raises(ObjectDamaged):
            unseal(magic, each, type(value))
