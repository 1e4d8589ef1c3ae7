"""Kernelspecs: what Jupyter needs to start a NBRewind kernel, and where it finds that.

The wheel installs both specs under `share/jupyter/kernels` with `python` as the
interpreter, which Jupyter replaces by its own, as for ipykernel's. A Jupyter
that lives in another environment needs `nbrewind kernel install`, which writes
this interpreter's path.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel

from nbrewind.errors import KernelError, UsageError

Mode = Literal["audit", "replay"]
RunMode = Literal["audit", "replay", "plain"]
"""`plain` is ipykernel without an engine: for comparison and tests."""
MODES: tuple[Mode, ...] = ("audit", "replay")
DEFAULT_NAME = "nbrewind"
LAUNCHER = "nbrewind_launcher"

_LOGOS = Path(__file__).parent / "logos"
_DISPLAY = "Python 3 (NBRewind {mode})"


def kernel_json(
    mode: Mode,
    *,
    python: str = "python",
    display_name: str | None = None,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The content of `kernel.json`.

    String hashing is fixed so that sets of strings iterate alike in every
    session; without that, equal sets print differently after each restart.
    """
    return {
        "argv": [
            python,
            "-Xfrozen_modules=off",  # the debugger cannot stop in frozen modules
            "-m",
            LAUNCHER,
            "--mode",
            mode,
            "-f",
            "{connection_file}",
        ],
        "display_name": display_name or _DISPLAY.format(mode=mode),
        "env": {"PYTHONHASHSEED": "0", **(env or {})},
        "interrupt_mode": "signal",
        "kernel_protocol_version": "5.5",
        "language": "python",
        "metadata": {"debugger": True},
    }


def spec_in_memory(mode: RunMode) -> KernelSpec:
    """The spec a headless run uses, installed or not."""
    if mode == "plain":
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(
            argv=command,
            display_name="Python 3 (ipykernel)",
            language="python",
            env={"PYTHONHASHSEED": "0"},
        )
    return KernelSpec(**kernel_json(mode, python=sys.executable))


class FixedSpecs(KernelSpecManager):
    """A kernelspec manager that knows exactly one spec, wherever Jupyter looks."""

    fixed: KernelSpec

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The one spec, under any name."""
        return self.fixed


@dataclass(frozen=True)
class InstalledSpec:
    """A NBRewind kernel that Jupyter finds here."""

    name: str
    display_name: str
    folder: str
    python: str
    mode: str


def install(
    *,
    user: bool = False,
    prefix: str | None = None,
    name: str = DEFAULT_NAME,
    env: Mapping[str, str] | None = None,
) -> list[InstalledSpec]:
    """Install both kernels for this interpreter, replacing earlier ones of that name.

    Args:
        user: into the user's Jupyter data folder.
        prefix: into `PREFIX/share/jupyter`. With neither, this environment if it
            is a virtual one, else the user's folder.
        name: the kernels are called `NAME-audit` and `NAME-replay`.
        env: environment variables the kernels are started with.

    Raises:
        UsageError: `user` and `prefix` together, or a name Jupyter does not allow.
        KernelError: the folder cannot be written.
    """
    if user and prefix:
        raise UsageError("choose one of --user, --sys-prefix and --prefix")
    if not user and not prefix:
        virtual = sys.prefix != sys.base_prefix or (Path(sys.prefix) / "conda-meta").is_dir()
        user, prefix = not virtual, sys.prefix if virtual else None
    specs = KernelSpecManager()
    done: list[InstalledSpec] = []
    for mode in MODES:
        full_name = f"{name}-{mode}"
        shown = None if name == DEFAULT_NAME else f"Python 3 ({name} {mode})"
        content = kernel_json(mode, python=sys.executable, display_name=shown, env=env)
        with tempfile.TemporaryDirectory() as folder:
            staged = Path(folder) / "spec"
            staged.mkdir()
            for logo in (_LOGOS / f"{DEFAULT_NAME}-{mode}").iterdir():
                (staged / logo.name).write_bytes(logo.read_bytes())
            (staged / "kernel.json").write_text(json.dumps(content, indent=1) + "\n")
            try:
                where = specs.install_kernel_spec(
                    str(staged), kernel_name=full_name, user=user, prefix=prefix
                )
            except ValueError as error:
                raise UsageError(f"--name {name}: {error}") from None
            except OSError as error:
                raise KernelError(
                    f"kernel {full_name} cannot be installed: {error}; "
                    "try --user, or --prefix with a folder of yours"
                ) from error
        done.append(InstalledSpec(full_name, content["display_name"], where, sys.executable, mode))
    return done


def installed(prefix: str | None = None) -> list[InstalledSpec]:
    """The NBRewind kernels Jupyter finds (in `prefix` only, if given), by name."""
    found: list[InstalledSpec] = []
    for name, folder in sorted(_manager(prefix).find_kernel_specs().items()):
        try:
            content = json.loads((Path(folder) / "kernel.json").read_text(encoding="utf-8"))
            argv = [str(item) for item in content["argv"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # another kernel's damage is not ours to report
        if LAUNCHER in argv:
            mode = argv[argv.index("--mode") + 1] if "--mode" in argv[:-1] else "audit"
            shown = str(content.get("display_name", name))
            found.append(InstalledSpec(name, shown, folder, argv[0], mode))
    return found


def remove(name: str = DEFAULT_NAME, prefix: str | None = None) -> list[str]:
    """Remove `NAME-audit` and `NAME-replay` (or the one kernel `NAME`); return their folders.

    Raises:
        KernelError: there is no such kernel, or it cannot be removed.
    """
    ours = {spec.name for spec in installed(prefix)}
    wanted = [n for n in (name, *(f"{name}-{mode}" for mode in MODES)) if n in ours]
    if not wanted:
        raise KernelError(f"no NBRewind kernel named {name}; see `nbrewind kernel list`")
    folders: list[str] = []
    for kernel in wanted:
        try:
            folders.append(str(_manager(prefix).remove_kernel_spec(kernel)))
        except NoSuchKernel:
            continue  # removed by someone else meanwhile
        except OSError as error:
            raise KernelError(f"kernel {kernel} cannot be removed: {error}") from error
    return folders


def _manager(prefix: str | None) -> KernelSpecManager:
    specs = KernelSpecManager()
    specs.ensure_native_kernel = False
    if prefix is not None:
        specs.kernel_dirs = [str(Path(prefix) / "share" / "jupyter" / "kernels")]
    return specs
