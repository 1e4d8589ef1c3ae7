"""Who did what was seen in a folder and that Python did not announce.

Traffic that audit events do not explain is that of code in C, of children, or of programs
that have nothing to do with the notebook. To count too much as read costs an execution
at worst. To take a stranger's write for the cell's own would write over a stranger's
file one day, so that a change is believed to be the cell's only

- if a child of the cell may have made it;
- if the cell names the file, or a folder that it is in;
- if it is in a folder that the cell made, or in a file that the notebook holds open.

Any other change makes the run one that was not followed, if it is one of a file the cell
read, or if code in C that writes files is loaded; else it is a stranger's.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from nbrewind.model.versions import ABSENT, Version
from nbrewind.state.baseline import Baseline
from nbrewind.state.command_lines import Told
from nbrewind.state.digests import digest_file
from nbrewind.state.file_events import How, Touch
from nbrewind.state.file_history import History
from nbrewind.state.folder_watch import Traffic
from nbrewind.state.named_paths import Named

_THROUGH_PYTHON = frozenset(
    {"numpy", "pandas", "scipy", "sklearn", "matplotlib", "PIL", "IPython", "zmq", "tornado"}
    | {"msgspec", "blake3", "xxhash", "zstandard", "cryptography", "_cffi_backend", "psutil"}
    | {
        "debugpy",
        "_pydevd_bundle",
        "_pydevd_frame_eval",
        "kiwisolver",
        "contourpy",
        "yaml",
        "_yaml",
    }
    | {"rpds", "markupsafe", "charset_normalizer", "regex", "simplejson", "greenlet", "lxml"}
    | {"statsmodels", "patsy", "networkx", "bottleneck", "numexpr", "pkg_resources", "wrapt"}
)
"""Packages with code in C that write no files but through Python."""

_DATABASES = ((0, b"SQLite format 3\0"), (8, b"DUCK"))
"""Where and how files begin that are changed in place, never written over."""


_SCRIPTS = (".py", ".sh", ".bash")


@dataclass
class Unseen:
    """What one run did unannounced, put into its history."""

    history: History
    named: Named
    baseline: Baseline
    told: Told
    children: bool
    """Children were at work during the run."""
    explained: Counter[str] = field(default_factory=Counter)
    """How many times Python's own machinery, or a thread of the kernel's, has used a path."""
    held_open: set[str] = field(default_factory=set)
    """Files that the notebook had open when the run began."""
    doubtful: bool = False
    """Something was changed and nobody knows by whom."""

    def take(self, traffic: dict[str, Traffic]) -> None:
        """Add what happened to the history."""
        if self.children:
            self._read_scripts(traffic)
        self._note_sources(traffic)
        lists = []
        for one in traffic.values():
            path = one.path
            if path.endswith(".pyc") or os.path.basename(path) == "__pycache__":
                self._compiled(one)
            elif self._is_explained(one) or (
                path.endswith(".ipynb")
                and not self.named.names(path)
                and path not in self.told.named
            ):
                continue
            elif one.changed and not one.mode_only:
                self._changed(one)
            elif one.folder:
                lists.append(one)
            elif one.opened and not self.history.is_changed(path):
                self.history.note(Touch(How.READ, path))
            elif one.mode_only and self.children:
                self._mode_changed(path)
        for one in lists:  # how they were before is worked out from what has changed
            if one.opened and self._lists(one.path):
                self.history.note(Touch(How.LIST, one.path))
        self.history.folders_gone_unseen(one.path for one in traffic.values() if one.folder)
        if self.children:
            self._words()

    def _read_scripts(self, traffic: dict[str, Traffic]) -> None:
        """What children read may be programs, with paths, habits and modules of their own."""
        for one in traffic.values():
            source = _source_of(one.path)
            if one.opened and source.endswith(_SCRIPTS) and not self._is_explained(one):
                self.told.script(source)

    def _is_explained(self, one: Traffic) -> bool:
        known = self.explained[one.path]
        return known > 0 and (one.openings <= known or not self.children)

    def _note_sources(self, traffic: dict[str, Traffic]) -> None:
        """What was renamed is now what it was before, under another name."""
        for one in traffic.values():
            source = traffic.get(one.source)
            if source is None or source.folder or source.created:
                continue
            if os.path.isfile(one.path) and self.baseline.version(source.path) is None:
                self.baseline.learn(source.path, digest_file(one.path))

    def _changed(self, one: Traffic) -> None:
        path = one.path
        if self.history.is_changed(path):
            return
        if self._is_believed(path):
            before = self._before(one)
            depends = self._depends(one)
            self.history.changed_unseen(path, before, folder=one.folder, depends=depends)
        elif self.history.is_read(path):
            self.doubtful = True
        elif one.opened and not one.folder:
            self.history.note(Touch(How.READ, path))
            self.doubtful = True
        elif os.path.lexists(path) or not one.created:
            self.doubtful = self.doubtful or may_write_files()

    def _is_believed(self, path: str) -> bool:
        return (
            self.children
            or path in self.held_open
            or self.named.names(path)
            or self.history.is_in_new_folder(path)
        )

    def _before(self, one: Traffic) -> Version | None:
        return ABSENT if one.created else self.baseline.version(one.path)

    def _depends(self, one: Traffic) -> bool:
        """Whether what was at a path before it was changed counts."""
        path = one.path
        if one.accessed or path in self.held_open:
            return True
        gone = not os.path.lexists(path)
        if one.created and gone:
            return False
        if path in self.told.forced:
            return False  # what is there now was made after what was there was removed
        if gone:
            return True
        if path in self.told.tested or (self.named.updates and not self.children):
            return True
        if self.told.careful:
            return path not in self.told.overwritten
        return not one.folder and _is_database(path)

    def _mode_changed(self, path: str) -> None:
        if self.history.is_changed(path) or not os.path.isfile(path):
            return
        before = self.baseline.mode(path)
        if before and before != os.stat(path).st_mode & 0o7777:
            version = self.baseline.version(path)
            self.history.changed_unseen(path, version, folder=False, depends=True)

    def _lists(self, path: str) -> bool:
        """Whether a folder was listed by the run: file browsers, and imports, do so too."""
        if self.history.is_listed_or_read(path) or self.history.is_in_new_folder(path):
            return False
        if not self.children:
            return self.named.lists(path)
        return not self.told.python or self.told.lists or not _holds_python(path)

    def _compiled(self, one: Traffic) -> None:
        """A child that imports a module may read nothing but its compiled form."""
        if not self.children or not one.path.endswith(".pyc"):
            return
        source = _source_of(one.path)
        if os.path.isfile(source) and not self.history.is_changed(source):
            self.history.note(Touch(How.READ, source))

    def _words(self) -> None:
        """What programs were given by name, and left no trace."""
        for path in sorted(self.told.named | self.told.tested):
            if not self.history.is_changed(path):
                how = How.STAT if path in self.told.named else How.CHECK
                self.history.note(Touch(how, path))
        for path in sorted(self.told.forced):
            self.history.gone_unseen(path)


def may_write_files() -> bool:
    """Whether packages are loaded whose code in C may write files by itself."""
    standard = sys.stdlib_module_names
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and file.endswith((".so", ".pyd", ".dylib")):
            top = name.partition(".")[0]
            if top not in standard and top not in _THROUGH_PYTHON:
                return True
    return False


def _source_of(path: str) -> str:
    """The source of a compiled module; any other path as it is."""
    if path.endswith(".pyc"):
        try:
            return importlib.util.source_from_cache(path)
        except (ValueError, NotImplementedError):
            pass
    return path


def _is_database(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            start = file.read(32)
    except OSError:
        return False
    return any(start[at : at + len(mark)] == mark for at, mark in _DATABASES)


def _holds_python(folder: str) -> bool:
    """Whether an import looks into a folder: it has sources, or is where the program runs."""
    try:
        names: Iterable[str] = os.listdir(folder)
    except OSError:
        return False
    return any(re.search(r"\.(py|ipynb)$", name) for name in names)
