"""What holds for every test: no trace of or on the user's own set-up, and shards of long suites."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import zlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

_scratch = tempfile.mkdtemp(prefix="nbrewind-tests-")
atexit.register(shutil.rmtree, _scratch, ignore_errors=True)
for _name in ("NBREWIND_STORE", "NBREWIND_ENV_POLICY", "NBREWIND_NOTEBOOK", "NBREWIND_DEBUG"):
    os.environ.pop(_name, None)
os.environ["NBREWIND_CONFIG_DIR"] = f"{_scratch}/config"
os.environ["IPYTHONDIR"] = f"{_scratch}/ipython"

try:
    distribution("nbrewind")
except PackageNotFoundError:
    # A bare checkout: processes that tests start must find the four roots too.
    _roots = [str(ROOT / name) for name in (".", "kernels", "analysis", "packaging")]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*_roots, *filter(None, [os.environ.get("PYTHONPATH")])]
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shard",
        metavar="K/N",
        help="run only the K-th of N parts of the tests; K may be any number, it wraps around",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shard = config.getoption("--shard")
    if shard is None:
        return
    part, parts = map(int, shard.split("/"))
    kept = [item for item in items if zlib.crc32(_unit(item).encode()) % parts == part % parts]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _unit(item: pytest.Item) -> str:
    """What goes into a shard together: tests that share something expensive, or one test."""
    marker = item.get_closest_marker("shard_with")
    return item.nodeid if marker is None else str(marker.args[0])
