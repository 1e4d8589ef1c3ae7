"""Law L1 under the other Pythons of this computer, and from one to another.

An interpreter takes part if it has what NBRewind needs; `NBREWIND_TEST_PYTHONS` names more of
them, separated as in `PATH`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from nbrewind.testing.apart import compare_apart

NEEDED = "import blake3, cloudpickle, cryptography, msgspec, xxhash, zstandard"

CELLS = [
    "import enum, dataclasses, functools, typing, abc\n"
    "class Color(enum.Enum):\n    RED = 1\n    def shout(self): return self.name + '!'\n"
    "@dataclasses.dataclass(order=True)\nclass P:\n    n: int\n    tags: list = dataclasses.field("
    "default_factory=list)\n    def double(self): return self.n * 2\n"
    "class Sub(P):\n    def double(self): return super().double() + 1\n"
    "class Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\n"
    "class Box(typing.NamedTuple):\n    w: int\n    h: int = 2",
    "def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n"
    "    return up\nup = make()\n@functools.singledispatch\ndef show(x): return 'any'\n"
    "@show.register\ndef show_int(x: int): return 'int'",
    "p = Sub(3); d = {Color.RED: [p]}; b = Box(1)\n"
    "def kind(v):\n    match v:\n        case {'a': [first, *_]}: return first\n"
    "        case _: pass\n    try: return [i for i in v if (j := i)]\n"
    "    except* ValueError: pass",
    "p.tags.append(up()); up()",
    "k = 1",
]
LOOK = (
    "print(p, p.double(), d[Color.RED][0] is p, Color(1) is Color.RED, Color.RED.shout(), b, up(),"
    " show(1), show('a'), kind({'a': [5]}), kind([0, 1]), type(p) is Sub, isinstance(p, P), k)"
)


def has_what_is_needed(python: str) -> bool:
    return subprocess.run([python, "-c", NEEDED], capture_output=True).returncode == 0


@cache
def others() -> list[str]:
    """Interpreters of other minor versions that can run NBRewind."""
    home = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = list(filter(None, os.environ.get("NBREWIND_TEST_PYTHONS", "").split(os.pathsep)))
    for minor in (11, 12, 13):
        if minor != sys.version_info.minor:
            path = shutil.which(f"python3.{minor}")
            found += [*([path] if path else []), *map(str, home.glob(f"3.{minor}.*/bin/python"))]
    return [python for python in found if has_what_is_needed(python)]


def test_code_is_restored_under_the_other_pythons(root: Path) -> None:
    if not others():
        pytest.skip("no other Python here has what NBRewind needs")
    for python in others():
        run = compare_apart([*CELLS, "'nothing'"], [*CELLS, LOOK], root, python=python)
        assert run.executed == [5], python
        edited = [*CELLS[:4], "k = 2", LOOK]
        run = compare_apart([*CELLS, LOOK], edited, root, python=python)
        assert run.executed == [4, 5], python


def test_what_another_python_recorded_is_run_again(root: Path) -> None:
    # cloudpickle#564, cloudpickle#293: code of one Python crashes another.
    if not others():
        pytest.skip("no other Python here has what NBRewind needs")
    for python in others():
        run = compare_apart([*CELLS, LOOK], [*CELLS, LOOK], root, later=python)
        assert run.executed == list(range(6)), python
        assert {r.kind for report in run.reports for r in report.reasons} >= {"environment-changed"}
