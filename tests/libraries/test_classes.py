"""What the tables say about each class of each library holds."""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.libraries.case import Case, Library, load_all
from tests.libraries.measure import Finding, measure
from tests.libraries.report import markdown

ROOT = Path(__file__).parent.parent.parent


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package around it is
        return False


def _parameters() -> Iterator[object]:
    for name, library in load_all().items():
        common = [pytest.mark.shard_with(name), *([] if library.fast else [pytest.mark.long])]
        for case in library.cases:
            missing = [m for m in (*library.requires, *case.requires) if not _is_installed(m)]
            skip = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
            marks = [*common, skip]
            yield pytest.param(name, library, case, id=f"{name}: {case.name}", marks=marks)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all processes of a test run have in common."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@functools.cache
def _findings(name: str, shared: Path) -> dict[str, Finding]:
    """What is found about a library, measured once in a test run."""
    result = shared / f"library-{name}.json"
    with open(f"{result}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            found = {case: asdict(finding) for case, finding in measure(name).items()}
            result.write_text(json.dumps(found))
    return {case: Finding(**found) for case, found in json.loads(result.read_text()).items()}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "library", "case"), [*_parameters()])
def test_objects_of_a_class_are_kept_and_followed(
    name: str, library: Library, case: Case, shared: Path
) -> None:
    found = _findings(name, shared)[case.name]
    assert not found.faults, "\n".join(found.faults)
    assert found.stored == (not case.recomputed), found.problem or "it is stored after all"
    if case.modify:
        assert found.detected == (not case.unseen)
    if found.stored:
        assert found.steady == (not case.fills), "whether reading it counts as a change"
        assert found.canonical or case.varies, found.unlike  # what varies may be equal by chance


def test_the_page_says_what_the_tables_say() -> None:
    page = ROOT / "docs" / "reference" / "supported-libraries.md"
    assert page.read_text(encoding="utf-8") == markdown(), (
        "run: python -m tests.libraries.report > docs/reference/supported-libraries.md"
    )
