"""`nbrewind kernel` puts the kernels where Jupyter looks, and takes only its own away."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from nbrewind.errors import KernelError, UsageError
from nbrewind_kernels import kernelspecs


def test_install_list_and_remove_in_a_prefix(nbrewind, tmp_path: Path) -> None:
    ran = nbrewind("kernel", "install", "--prefix", tmp_path, "--env", "A=b", "--env", "C=d e")
    assert ran.returncode == 0, ran
    kernels = tmp_path / "share" / "jupyter" / "kernels"
    assert {path.name for path in kernels.iterdir()} == {"nbrewind-audit", "nbrewind-replay"}
    content = json.loads((kernels / "nbrewind-replay" / "kernel.json").read_text())
    assert content["argv"][0] == sys.executable
    assert content["env"] == {"PYTHONHASHSEED": "0", "A": "b", "C": "d e"}
    assert (kernels / "nbrewind-audit" / "logo-64x64.png").exists()
    listed = nbrewind("kernel", "list", "--prefix", tmp_path).stdout
    assert "nbrewind-audit" in listed
    assert str(kernels / "nbrewind-replay") in listed
    assert nbrewind("kernel", "remove", "--prefix", tmp_path).returncode == 0
    assert list(kernels.iterdir()) == []
    gone = nbrewind("kernel", "remove", "--prefix", tmp_path)
    assert gone.returncode == 1
    assert "no NBRewind kernel" in gone.stderr


def test_an_installed_kernel_is_one_that_jupyter_reads(tmp_path: Path) -> None:
    kernelspecs.install(prefix=str(tmp_path))
    manager = KernelSpecManager()
    manager.kernel_dirs = [str(tmp_path / "share" / "jupyter" / "kernels")]
    spec = manager.get_kernel_spec("nbrewind-audit")
    assert spec.language == "python"
    assert spec.metadata["debugger"] is True
    assert spec.interrupt_mode == "signal"


def test_two_names_live_side_by_side(tmp_path: Path) -> None:
    kernelspecs.install(prefix=str(tmp_path))
    kernelspecs.install(prefix=str(tmp_path), name="project")
    names = [spec.name for spec in kernelspecs.installed(str(tmp_path))]
    assert names == ["nbrewind-audit", "nbrewind-replay", "project-audit", "project-replay"]
    kernelspecs.remove("project", str(tmp_path))
    assert len(kernelspecs.installed(str(tmp_path))) == 2


def test_other_kernels_are_neither_listed_nor_removed(tmp_path: Path) -> None:
    other = tmp_path / "share" / "jupyter" / "kernels" / "nbrewind-audit"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text(json.dumps({"argv": ["r"], "display_name": "R"}))
    assert kernelspecs.installed(str(tmp_path)) == []
    with pytest.raises(KernelError):
        kernelspecs.remove(prefix=str(tmp_path))
    assert other.exists()


def test_names_jupyter_does_not_allow_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--name"):
        kernelspecs.install(prefix=str(tmp_path), name="a b/c")


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("a file")
    with pytest.raises(KernelError, match="cannot be installed"):
        kernelspecs.install(prefix=str(tmp_path))
