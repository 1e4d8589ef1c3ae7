"""Who checks for a file, and what of the file the answer depends on.

`os.path.exists` asks whether a file is there, `os.path.getsize` what is in it; and
Python's own machinery asks on every occasion without the notebook's doing.
"""

from __future__ import annotations

import genericpath
import glob
import os
import pathlib
import posixpath
from dataclasses import dataclass
from types import FrameType, FunctionType

from nbrewind.state.file_events import How

_TOOLING = frozenset(
    {
        # Find and show code.
        *("importlib", "pkgutil", "zipimport", "runpy", "linecache", "inspect", "tokenize"),
        *("traceback", "warnings", "pdb", "bdb", "debugpy", "pydevd", "_pydevd_bundle"),
        *("_pydev_bundle", "_pydevd_frame_eval", "stack_data", "executing", "cloudpickle", "dill"),
        # Run the notebook; look for fonts and settings.
        *("IPython", "ipykernel", "ipykernel_launcher", "matplotlib", "matplotlib_inline"),
        *("nbrewind", "nbrewind_kernels", "nbrewind_analysis", "nbrewind_packaging"),
        *("site", "sysconfig", "platform", "ctypes", "locale", "gettext", "mimetypes", "ssl"),
        # What they do to files they announce by events.
        *("shutil", "tempfile", "subprocess", "multiprocessing"),
    }
)
"""Packages whose checks tell nothing about what the notebook depends on."""

_LINKS = frozenset({"realpath", "_joinrealpath", "samefile", "ismount", "resolve"})
"""Functions that follow links, or compare files that they have found."""

_CONTENT = frozenset(
    {"getsize", "getmtime", "getatime", "getctime", "stat", "lstat", "owner", "group"}
)
_FOLDER = frozenset({"isdir", "is_dir"})
_FOLDER_SEEKERS = frozenset({("polars", "normalize_filepath")})
"""Functions of libraries that refuse a folder and take no interest in a file."""
_ABOUT_TO_WRITE = frozenset({("PIL", "save")})
"""Functions of libraries that check a file they are about to write."""
_ANNOUNCED = frozenset({"makedirs", "renames", "mkdir", "touch", "rename", "replace", "unlink"})
"""Functions that check on the way to something that has an event of its own."""


def _files_of(*functions: object) -> frozenset[str]:
    return frozenset(f.__code__.co_filename for f in functions if isinstance(f, FunctionType))


# Modules that are frozen into the interpreter name no file of theirs but `<frozen os>`.
_PATHS = _files_of(
    genericpath.exists,
    posixpath.realpath,
    *(function for cls in pathlib.Path.__mro__ for function in vars(cls).values()),
)
_WALKERS = _files_of(os.makedirs, glob.glob)


@dataclass(frozen=True, slots=True)
class Asker:
    """The code on whose behalf a check is made."""

    how: How
    """`CHECK` or `CHECK_FOLDER` if existence is all that counts, else `STAT`."""
    file: str
    """Where the code is from."""


def asker(frame: FrameType | None, event: str) -> Asker | None:
    """Who made a check.

    Args:
        frame: What called `os.stat`, `os.lstat` or `os.access`.
        event: Which of them: `os.access` asks about existence only.

    Returns:
        None if the check tells nothing about the run.
    """
    how = How.CHECK if event == "os.access" else How.STAT
    while frame is not None:
        code = frame.f_code
        if code.co_filename in _WALKERS:
            how = How.CHECK
        elif code.co_filename in _PATHS:
            # The outermost of these functions is the one that was called.
            how = How.STAT if code.co_name in _CONTENT else How.CHECK
            how = How.CHECK_FOLDER if code.co_name in _FOLDER else how
        else:
            break
        if code.co_name in _LINKS or code.co_name in _ANNOUNCED:
            return None
        frame = frame.f_back
    if frame is None:
        return None
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if (package, frame.f_code.co_name) in _ABOUT_TO_WRITE:
        return None
    if (package, frame.f_code.co_name) in _FOLDER_SEEKERS:
        how = How.CHECK_FOLDER
    return None if package in _TOOLING else Asker(how, frame.f_code.co_filename)
