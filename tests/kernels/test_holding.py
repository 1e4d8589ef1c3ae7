"""While a kernel is alive, no collection removes what its names stand for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbrewind.store import open_store
from nbrewind.store.gc import Patience, collect
from nbrewind.store.retention import prune

Start = Callable[..., Any]

AT_ONCE = Patience(grace=0, trash=0)


def test_a_value_that_is_not_loaded_outlives_its_record(start: Start, tmp_path: Path) -> None:
    cells = ("x = list(range(1000))", "y = [v * 2 for v in x]")
    place = tmp_path / "store"
    audit = start("audit", NBREWIND_STORE=str(place))
    for cell in cells:
        audit.run(cell)
    replay = start("replay", NBREWIND_STORE=str(place))
    for cell in cells:
        replay.run(cell)  # known, not loaded
    store = open_store(place)
    assert len(store.refs()) == 2
    prune(store, max_bytes=0, apply=True)
    assert store.refs() == []
    collect(store, apply=True, patience=AT_ONCE)
    assert store.info().objects["manifest"] == 2
    store.close()
    assert replay.run("print(len(x), y[-1])").text() == "1000 1998\n"
