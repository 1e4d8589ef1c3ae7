"""The layout of the distribution: four roots, nothing that shadows another package."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from nbrewind_kernels.kernelspecs import MODES, kernel_json

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("nbrewind", "nbrewind_kernels", "nbrewind_analysis", "nbrewind_packaging")


@pytest.mark.parametrize("root", ["kernels", "analysis", "packaging"])
def test_no_root_is_a_package_itself(root: str) -> None:
    assert not (ROOT / root / "__init__.py").exists()


def test_test_folders_are_no_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


@pytest.mark.parametrize("mode", MODES)
def test_shipped_kernelspec_is_the_one_that_install_writes(mode: str) -> None:
    shipped = ROOT / "kernels" / "kernelspecs" / f"nbrewind-{mode}" / "kernel.json"
    assert json.loads(shipped.read_text()) == kernel_json(mode)


def test_wheel_holds_every_package_and_both_kernelspecs(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True)
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("nbrewind-")} == {
        *PACKAGES,
        "nbrewind_launcher.py",
    }
    for mode in MODES:
        where = f".data/data/share/jupyter/kernels/nbrewind-{mode}/"
        held = {name.split(where)[1] for name in names if where in name}
        assert held == {"kernel.json", "logo-svg.svg", "logo-32x32.png", "logo-64x64.png"}
    assert "nbrewind/demo/tumours.ipynb" in names
    assert "nbrewind/py.typed" in names


SOURCES = [ROOT, ROOT / "kernels", ROOT / "analysis", ROOT / "packaging"]


def test_every_module_that_core_code_imports_is_a_core_dependency() -> None:
    """At module level, code outside tests uses the standard library, itself and dependencies."""
    names = {"ipython": "IPython", "pyzmq": "zmq"}
    declared = {re.split(r"[><=\[ ]", item)[0] for item in PROJECT["project"]["dependencies"]}
    allowed = {names.get(name, name) for name in declared} | {*PACKAGES, *sys.stdlib_module_names}
    # ipykernel cannot be had without these.
    allowed |= {"traitlets", "zmq", "tornado", "comm", "psutil"}
    for package in ("nbrewind", "kernels", "analysis", "packaging"):
        for path in (ROOT / package).rglob("*.py"):
            if (ROOT / "nbrewind" / "testing") in path.parents:
                continue  # for test suites, which have pytest
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in tree.body:
                tops = []
                if isinstance(node, ast.Import):
                    tops = [alias.name.split(".")[0] for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    tops = [(node.module or "").split(".")[0]]
                of_training = (ROOT / "nbrewind" / "training") in path.parents
                more = {"torch", "numpy"} if of_training else set()
                assert set(tops) <= allowed | more, f"{path}: {set(tops) - allowed}"


def test_training_is_imported_without_torch_and_numpy() -> None:
    """Kernels import these parts of it, whoever uses them."""
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "import nbrewind.training, nbrewind.training.context\n"
        "import nbrewind.training.launching.launch, nbrewind_kernels.engine\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ)


def test_torch_is_never_a_core_dependency_and_pinned_for_the_tests() -> None:
    project = PROJECT["project"]
    assert not any("torch" in item for item in project["dependencies"])
    assert not any("torch" in item for item in project["optional-dependencies"]["demo"])
    assert "torch==2.13.0" in project["optional-dependencies"]["test"]


def test_packages_import_from_the_checkout_root() -> None:
    """Standing in the repository must not make `import packaging` find our folder."""
    code = "import packaging.version, nbrewind, nbrewind_kernels, nbrewind_packaging"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env=dict(os.environ))


def test_launcher_takes_the_current_folder_off_the_path_before_it_imports(tmp_path: Path) -> None:
    (tmp_path / "ipykernel.py").write_text("raise SystemExit('the notebook folder was imported')")
    (tmp_path / "random.py").write_text("raise SystemExit('the notebook folder was imported')")
    ran = subprocess.run(
        [sys.executable, "-m", "nbrewind_launcher", "--mode", "audit", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONSAFEPATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "the notebook folder" not in ran.stdout + ran.stderr
    assert ran.returncode == 0, ran.stderr
