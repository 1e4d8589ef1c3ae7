"""Where a path belongs: to the project, to an installed library, to the machine.

Paths of the project are written relative to the notebook's folder with `/`, so that
records hold on another machine; others stay absolute.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import tempfile
from functools import lru_cache
from pathlib import Path

_MACHINE = ("/proc", "/dev", "/sys", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64")


def inside(root: Path, path: str) -> str:
    """`path` relative to `root` with `/` if inside it, `.` for `root` itself, else unchanged."""
    base = str(root)
    if path == base:
        return "."
    if path.startswith(base + os.sep):
        return path[len(base) + 1 :].replace(os.sep, "/")
    return path


@lru_cache(maxsize=16)
def library_folders(root: Path) -> tuple[str, ...]:
    """Folders of the interpreter and of installed packages.

    A prefix that holds the notebook's folder (notebooks kept below a conda
    installation) is not one of them; its package folders are.
    """
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    names = sysconfig.get_path_names()
    paths = (sysconfig.get_path(name) for name in names if name not in {"data", "scripts"})
    folders.update(path for path in paths if path)
    folders.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    folders.add(site.getusersitepackages())
    folders.update(_own_packages())
    every = {os.path.normpath(folder) for folder in folders}
    every |= {os.path.realpath(folder) for folder in every}
    return tuple(sorted(f"{f}{os.sep}" for f in every if f != os.sep and not _holds(f, root)))


def _own_packages() -> list[str]:
    """This package's own folders, which need not be where others are installed."""
    names = ("nbrewind", "nbrewind_kernels", "nbrewind_analysis", "nbrewind_packaging")
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    return [os.path.dirname(file) for file in files if file]


@lru_cache(maxsize=16)
def machine_folders(root: Path) -> tuple[str, ...]:
    """Folders of the operating system and of caches and profiles that only tools keep."""
    home = Path.home()
    config = os.environ.get("XDG_CONFIG_HOME", str(home / ".config"))
    data = os.environ.get("XDG_DATA_HOME", str(home / ".local" / "share"))
    folders = [
        *_MACHINE,
        os.environ.get("XDG_CACHE_HOME", str(home / ".cache")),
        os.environ.get("IPYTHONDIR", str(home / ".ipython")),
        os.environ.get("JUPYTER_CONFIG_DIR", str(home / ".jupyter")),
        os.environ.get("JUPYTER_RUNTIME_DIR", f"{data}/jupyter"),
        os.environ.get("JUPYTER_DATA_DIR", f"{data}/jupyter"),
        os.environ.get("MPLCONFIGDIR", f"{config}/matplotlib"),
        f"{config}/matplotlib",
        f"{tempfile.gettempdir()}/ipykernel_{os.getpid()}",
    ]
    every = {os.path.normpath(folder) for folder in folders}
    # matplotlib's stand-in for a configuration folder it may not write.
    stand_in = f"{tempfile.gettempdir()}{os.sep}matplotlib-"
    held = (f"{folder}{os.sep}" for folder in every if not _holds(folder, root))
    return (*sorted(held), stand_in)


_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})
"""Where packages are installed, also outside this interpreter's prefix."""


def is_library_file(path: str, root: Path) -> bool:
    """Whether a source file belongs to the interpreter or an installed package."""
    return path.startswith(library_folders(root)) or not _PACKAGE_FOLDERS.isdisjoint(
        path.split(os.sep)
    )


def _holds(folder: str, root: Path) -> bool:
    return f"{root}{os.sep}".startswith(f"{folder}{os.sep}")
