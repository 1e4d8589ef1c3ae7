"""The surroundings of a notebook: files, local modules and installed distributions as they are."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from pathlib import Path

from nbrewind.model.records import ExecutionRecord, ModuleRead
from nbrewind.model.versions import ABSENT, PRESENT, Version
from nbrewind.state.digests import current_version, listing
from nbrewind.state.environment import distribution_version
from nbrewind.state.modules import LocalModules
from nbrewind.store.abc import Store
from nbrewind_analysis.equality import Equality
from nbrewind_analysis.table import VersionTable


class DiskSurroundings:
    """What validity compares records with, read from this machine as it is now."""

    def __init__(self, root: Path, store: Store | None) -> None:
        self.root = root
        self.modules = LocalModules(root)
        self._equality = Equality(store)
        self._files: dict[str, Version] = {}
        self._listings: dict[str, frozenset[str] | None] = {}
        self._platform = f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine()

    def forget(self) -> None:
        """Files may have changed: look again."""
        self._files.clear()
        self._listings.clear()
        self.modules.forget()

    def file(self, path: str, recorded: Version) -> Version:
        """Version of a file or folder on disk now; files do not change between two cells."""
        key = f"{path}\0{recorded == PRESENT}"
        known = self._files.get(key)
        if known is None:
            known = self._files[key] = current_version(self._full(path), recorded)
        return known

    def listing(self, path: str) -> frozenset[str] | None:
        """The names in a folder on disk now; None if it is no folder."""
        if path not in self._listings:
            self._listings[path] = listing(self._full(path))
        return self._listings[path]

    def _full(self, path: str) -> str:
        return path if path.startswith("/") else str(self.root / path)

    def module(self, read: ModuleRead) -> Version:
        """Version of a local module as loaded in this process, else as on disk."""
        if read.version == ABSENT:
            return PRESENT if self.modules.is_importable(read.name) else ABSENT
        return self.modules.on_disk(read)

    def linked(self, modules: Iterable[str]) -> set[str]:
        """Local modules whose code may run when code uses some modules, imported yet or not."""
        return {read.name for read in self.modules.reach(modules)}

    def local_modules(self, used: Iterable[str], imported: Iterable[str]) -> list[str]:
        """Names and versions of local modules whose code may run when code uses or imports some."""
        return [f"{read.name}={read.version}" for read in self.modules.reach(used, imported)]

    def distribution(self, name: str) -> str:
        """Installed version of a distribution; empty if it is not installed."""
        return distribution_version(name)

    def platform(self) -> tuple[str, str]:
        """Python `major.minor` and machine."""
        return self._platform

    def equivalent(self, record: ExecutionRecord, name: str, table: VersionTable) -> bool:
        """Whether two stored values are equal although their streams differ."""
        return self._equality.equal(record, name, table)
