"""The environment part of a record: interpreter, machine, distributions."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from pathlib import Path

import pytest

from nbrewind.state.environment import distribution_version, environment, owners_of_modules


def test_installed_owners_of_modules_are_told_with_their_versions() -> None:
    found = environment(["numpy.linalg", "PIL", "sklearn.tree", "dateutil", "os", "__main__"])
    expected = ["numpy", "pillow", "python-dateutil", "scikit-learn"]
    assert found.distributions == {name: importlib.metadata.version(name) for name in expected}
    assert found.python == "{}.{}".format(*sys.version_info[:2])
    assert found.machine == platform.machine()


def test_standard_library_alone_needs_no_distribution() -> None:
    assert environment(["os.path", "json", "sys"]).distributions == {}


def test_agrees_with_the_standard_way_on_every_importable_module() -> None:
    slow = {
        top: names
        for top, names in importlib.metadata.packages_distributions().items()
        if top.isidentifier() and not top.startswith("__")
    }
    fast = owners_of_modules()
    for top, names in slow.items():
        canonical = {name.replace("_", "-").replace(".", "-").lower() for name in names}
        assert canonical <= set(fast.get(top, {})), top


def test_a_newly_installed_distribution_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert environment(["nbr_dist"]).distributions == {}
    info = tmp_path / "Nbr_Dist-1.2.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(
        "../../../bin/tool,,\nnbr_dist/__init__.py,,\nnbr_dist/a/b.py,,\n"
        "_nbr_speedups.cpython-311-x86_64-linux-gnu.so,,\nNbr_Dist-1.2.dist-info/RECORD,,\n"
    )
    assert environment(["nbr_dist.a", "_nbr_speedups"]).distributions == {"nbr-dist": "1.2"}
    assert "bin" not in owners_of_modules()
    assert distribution_version("nbr-dist") == "1.2"
    assert distribution_version("nbr-none") == ""


def test_namespace_packages_have_several_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("one", "two"):
        info = tmp_path / f"nbr_{part}-1.0.dist-info"
        info.mkdir()
        (info / "RECORD").write_text(f"nbr_space/{part}.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert environment(["nbr_space"]).distributions == {"nbr-one": "1.0", "nbr-two": "1.0"}
