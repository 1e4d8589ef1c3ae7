"""Local modules: which a run may have used, and in which version."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbrewind.model.records import ModuleRead
from nbrewind.model.versions import ABSENT, content_version
from nbrewind.state.modules import LocalModules


def version(text: str) -> str:
    return content_version(text.encode())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(root: Path, **sources: str) -> None:
    for name, source in sources.items():
        path = root / (name.replace("__", "/") + ".py")
        if name.endswith("__PACKAGE"):
            path = path.with_name("__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    importlib.invalidate_caches()


def names(reads: list[ModuleRead]) -> list[str]:
    return [read.name for read in reads]


def test_only_files_of_the_project_are_local(root: Path) -> None:
    write(root, nbr_mine="x = 1")
    modules = LocalModules(root)
    assert modules.is_local("nbr_mine")
    importlib.import_module("nbr_mine")
    assert modules.is_local("nbr_mine")
    for name in ("os", "sys", "json", "numpy", "pytest", "__main__", "no_such_module_at_all"):
        assert not modules.is_local(name)


def test_a_loaded_module_keeps_the_version_it_was_loaded_from(root: Path) -> None:
    write(root, nbr_kept="x = 1")
    modules = LocalModules(root)
    importlib.import_module("nbr_kept")
    modules.notice()
    write(root, nbr_kept="x = 2 # edited")
    assert modules.version("nbr_kept") == version("x = 1")
    read = ModuleRead("nbr_kept", "nbr_kept.py", version("x = 1"))
    assert modules.on_disk(read) == version("x = 1")


def test_a_reloaded_module_has_the_version_of_the_reload(root: Path) -> None:
    write(root, nbr_again="x = 1")
    modules = LocalModules(root)
    module = importlib.import_module("nbr_again")
    assert modules.version("nbr_again") == version("x = 1")
    write(root, nbr_again="x = 2222")
    importlib.reload(module)
    modules.notice()
    assert modules.version("nbr_again") == version("x = 2222")


def test_a_module_not_imported_here_has_the_version_on_disk(root: Path) -> None:
    write(root, nbr_disk="x = 1")
    modules = LocalModules(root)
    read = ModuleRead("nbr_disk", "nbr_disk.py", version("x = 1"))
    assert modules.on_disk(read) == version("x = 1")
    write(root, nbr_disk="x = 3")
    assert modules.on_disk(read) == version("x = 3")
    (root / "nbr_disk.py").unlink()
    importlib.invalidate_caches()
    assert modules.on_disk(read) == ABSENT
    assert modules.version("nbr_disk") == ABSENT
    assert "nbr_disk" not in sys.modules


def test_reach_follows_namespaces_and_import_statements(root: Path) -> None:
    write(
        root,
        nbr_top="import os\nimport nbr_a as helper\nfrom nbr_b import function",
        nbr_a="x = 1",
        nbr_b="def function():\n    import nbr_c\n    return nbr_c.x",
        nbr_c="from importlib import import_module\nd = lambda: import_module('nbr_d')",
        nbr_d="x = 1",
        nbr_unrelated="x = 1",
    )
    modules = LocalModules(root)
    everything = ["nbr_a", "nbr_b", "nbr_c", "nbr_d", "nbr_top"]
    assert names(modules.reach(["nbr_top"])) == everything
    assert not {"nbr_top", "nbr_c"} & set(sys.modules)
    importlib.import_module("nbr_top")
    reads = modules.reach(["nbr_top", "numpy", "os"])
    assert names(reads) == everything
    assert reads[0] == ModuleRead("nbr_a", "nbr_a.py", version("x = 1"))


def test_reach_follows_objects_put_into_a_module_at_run_time(root: Path) -> None:
    write(root, nbr_host="hooks = None", nbr_guest="class Guest: pass")
    modules = LocalModules(root)
    host = importlib.import_module("nbr_host")
    guest = importlib.import_module("nbr_guest")
    vars(host)["hook"] = guest.Guest()
    assert names(modules.reach(["nbr_host"])) == ["nbr_guest", "nbr_host"]


def test_reach_resolves_packages_and_relative_imports(root: Path) -> None:
    write(
        root,
        nbr_pkg__PACKAGE="from .core import run",
        nbr_pkg__core="from . import tools\nfrom .sub.deep import x\ndef run(): pass",
        nbr_pkg__tools="",
        nbr_pkg__unused="",
        nbr_pkg__sub__PACKAGE="",
        nbr_pkg__sub__deep="from ..tools import *\nx = 1",
    )
    expected = ["nbr_pkg", "nbr_pkg.core", "nbr_pkg.sub", "nbr_pkg.sub.deep", "nbr_pkg.tools"]
    modules = LocalModules(root)
    assert names(modules.reach([], ["nbr_pkg.core.run"])) == expected
    assert "nbr_pkg" not in sys.modules
    importlib.import_module("nbr_pkg.core")
    # Its use runs no code of the packages around what it has imported.
    assert names(modules.reach(["nbr_pkg.core"])) == [
        "nbr_pkg.core",
        "nbr_pkg.sub.deep",
        "nbr_pkg.tools",
    ]
    assert names(modules.reach([], ["nbr_pkg.core"])) == expected
    paths = {read.name: read.path for read in modules.reach(["nbr_pkg"])}
    assert paths["nbr_pkg.sub.deep"] == "nbr_pkg/sub/deep.py"


def test_reach_finds_modules_of_namespace_packages_that_are_not_loaded(root: Path) -> None:
    write(root, nbr_space__deep__leaf="from ..other import leaf", nbr_space__other__leaf="")
    found = names(LocalModules(root).reach(["nbr_space.deep.leaf"]))
    assert found == ["nbr_space.deep.leaf", "nbr_space.other.leaf"]


def test_import_cycles_and_broken_sources_end(root: Path) -> None:
    write(root, nbr_x="import nbr_y", nbr_y="import nbr_x, nbr_broken", nbr_broken="def (")
    assert names(LocalModules(root).reach(["nbr_x"])) == ["nbr_broken", "nbr_x", "nbr_y"]


def test_modules_outside_the_folder_keep_their_absolute_path(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("editable")
    write(elsewhere, nbr_editable="x = 1")
    monkeypatch.syspath_prepend(str(elsewhere))
    (read,) = LocalModules(root).reach(["nbr_editable"])
    assert read.path == str(elsewhere / "nbr_editable.py")


def test_a_local_module_may_shadow_the_standard_library(root: Path) -> None:
    write(root, this="x = 1")
    modules = LocalModules(root)
    sys.modules.pop("this", None)
    importlib.import_module("this")
    assert names(modules.reach(["this"])) == ["this"]


def test_own_packages_and_modules_without_files_are_not_local(root: Path) -> None:
    modules = LocalModules(root)
    sys.modules["nbr_made"] = type(sys)("nbr_made")
    assert not modules.is_local("nbr_made")
    assert not modules.is_local("nbrewind.state.modules")
    assert modules.reach(["nbr_made", "nbrewind.state"]) == []
    assert os.path.exists(root)
