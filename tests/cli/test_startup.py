"""`nbrewind --help` answers at once: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "numpy",
    "pandas",
    "torch",
    "IPython",
    "ipykernel",
    "zmq",
    "nbformat",
    "jupyter_client",
    "nbclient",
    "cryptography",
    "matplotlib",
    "sklearn",
    "tornado",
    "rich.live",
    "msgspec",
    "blake3",
    "cloudpickle",
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["replay", "--help"],
        ["kernel", "install", "--help"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from nbrewind.cli import main\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        f"print('HEAVY', sorted(set({HEAVY!r}) & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.rstrip().endswith("HEAVY []"), ran.stdout


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, nbrewind; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_python_m_nbrewind_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "nbrewind", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("nbrewind 0.")
