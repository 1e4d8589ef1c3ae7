"""Which ambient state a run moved, and putting recorded ambient state in force.

`AmbientTracker` owns the providers of one session. State of a library that is not
imported yet is kept pending and applied right after its import, so that setting
recorded state never imports anything.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from nbrewind.model.versions import ENTROPY, Version, lineage_version
from nbrewind.state.hook_numbers import HookNumbers
from nbrewind.state.import_watch import ImportWatch
from nbrewind.state.library_settings import library_settings
from nbrewind.state.providers import START, Provider, Rebasing
from nbrewind.state.rng import generators
from nbrewind.state.settings import process_settings

log = logging.getLogger(__name__)

PLUGIN_GROUP = "nbrewind.ambient"


@dataclass(frozen=True)
class Moved:
    """One provider whose state a run changed."""

    provider: str
    before: Version
    after: Version
    state: bytes | None
    """The state after the run; None if it cannot be stored."""
    start: bytes | None
    """The state before the run where `before` is `entropy`."""


@dataclass(frozen=True)
class Saved:
    """Everything `restore_saved` needs to put the session back as it was."""

    states: dict[str, bytes | None]
    versions: dict[str, Version]
    starts: dict[str, bytes | None]
    pending: dict[str, tuple[Version, bytes]]


class AmbientTracker:
    """The ambient state of one session.

    Args:
        root: The notebook's folder; paths inside it are versioned relative to it.
        plugins: Whether to load providers of other packages.
        imports: The session's watch over imports; by default one of its own.

    Nothing here raises: a provider that fails has a version nothing else has, so that
    cells which depend on it are executed again (law L6).
    """

    def __init__(
        self, root: Path, *, plugins: bool = True, imports: ImportWatch | None = None
    ) -> None:
        root = root.resolve()
        known: list[Provider] = [
            *generators(),
            HookNumbers(),
            *process_settings(root),
            *library_settings(),
        ]
        if plugins:
            known += _plugins()
        self.providers: dict[str, Provider] = {provider.name: provider for provider in known}
        self.pending: dict[str, tuple[Version, bytes]] = {}
        """Recorded state of libraries that are not imported yet."""
        self._marked: set[str] = set()
        self._starts: dict[str, bytes | None] = {}
        self._before: dict[str, Version] = {}
        self._complained: set[str] = set()
        self._token = os.urandom(8).hex()
        for provider in known:
            self._notice(provider)
        self.imports = imports or ImportWatch(root)
        self.imports.after({provider.module for provider in known} - {""}, self._imported)
        self.imports.around(self._before_library, self._after_library, libraries_only=True)

    def close(self) -> None:
        """Stop watching imports."""
        self.imports.close()

    def versions(self) -> dict[str, Version]:
        """The present version of every provider, imported or not."""
        return {name: self._version(provider) for name, provider in self.providers.items()}

    def begin(self) -> dict[str, Version]:
        """Remember, and return, the versions before a run."""
        self._before = self.versions()
        return self._before

    def end(self) -> list[Moved]:
        """What the run changed."""
        moved = []
        for name, after in self.versions().items():
            before = self._before.get(name, after)
            if before == after:
                continue
            start = self._starts.get(name) if before == ENTROPY else None
            moved.append(Moved(name, before, after, self._capture(name), start))
        return moved

    def set(self, provider: str, version: Version, state: bytes | None) -> bool:
        """Put recorded state in force, now or when its library is imported.

        Args:
            provider: Name of the provider.
            version: The state's version; `entropy` makes the state the one that the
                session counts as its generator's start.
            state: What `Moved.state` or `Moved.start` held; None with `start` and
                `entropy` goes back to this session's own start.

        Returns:
            Whether the provider now has, or will have, this version.
        """
        owner = self.providers.get(provider)
        if owner is None:
            return False
        if not self._ready(owner):
            self.pending.pop(provider, None)
            if state is not None and version != START:
                self.pending[provider] = (version, state)
            return self._version(owner) == version
        if state is None and version in (START, ENTROPY):
            state = self._starts.get(provider)
        if state is None:
            return self._version(owner) == version
        return self._apply(owner, version, state)

    def save(self) -> Saved:
        """The present state of everything, for `restore_saved`."""
        active = [name for name, provider in self.providers.items() if self._ready(provider)]
        return Saved(
            {name: self._capture(name) for name in active},
            self.versions(),
            dict(self._starts),
            dict(self.pending),
        )

    def restore_saved(self, saved: Saved) -> None:
        """Put back what `save` saw; libraries imported since go back to their start."""
        self.pending = dict(saved.pending)
        for name, version in saved.versions.items():
            provider = self.providers[name]
            if not self._ready(provider):
                continue
            if name in saved.states:
                state = saved.states[name]
            elif name in saved.pending:
                version, state = self.pending.pop(name)
            else:
                state = self._starts.get(name)
            if self._version(provider) != version and state is not None:
                self._apply(provider, version, state)

    def _version(self, provider: Provider) -> Version:
        if not self._ready(provider):
            waiting = self.pending.get(provider.name)
            if waiting is not None:
                return waiting[0]
            return ENTROPY if provider.kind == "rng" else START
        try:
            return provider.digest()
        except Exception:
            self._complain(provider, "read")
            return lineage_version(self._token, provider.name)

    def _ready(self, provider: Provider) -> bool:
        """Whether a provider is active; takes note of it the first time it is."""
        return provider.name in self._marked or self._notice(provider)

    def _notice(self, provider: Provider) -> bool:
        try:
            if not provider.active():
                return False
            provider.mark()
            self._marked.add(provider.name)
            self._starts[provider.name] = provider.capture()
        except Exception:
            self._complain(provider, "read")
            return False
        waiting = self.pending.pop(provider.name, None)
        if waiting is not None:
            self._apply(provider, *waiting)
        return True

    def _apply(self, provider: Provider, version: Version, state: bytes) -> bool:
        try:
            provider.restore(state)
            if version == ENTROPY:
                provider.mark()
                self._starts[provider.name] = state
        except Exception:
            self._complain(provider, "set")
            return False
        return self._version(provider) == version

    def _capture(self, name: str) -> bytes | None:
        provider = self.providers[name]
        try:
            return provider.capture()
        except Exception:
            self._complain(provider, "capture")
            return None

    def _imported(self, module: str) -> None:
        for provider in self.providers.values():
            if provider.module == module and provider.name not in self._marked:
                self._notice(provider)

    def _before_library(self) -> dict[str, Any]:
        """State before a library's import: what it changes is not the notebook's doing."""
        return {
            name: provider.read()
            for name, provider in self.providers.items()
            if name in self._marked and isinstance(provider, Rebasing)
        }

    def _after_library(self, before: dict[str, Any] | None) -> None:
        for name, values in (before or {}).items():
            provider: Any = self.providers[name]
            provider.absorb(values)
            if provider.kind == "rng" and self._version(provider) == ENTROPY:
                self._starts[name] = self._capture(name)

    def _complain(self, provider: Provider, verb: str) -> None:
        if (key := f"{provider.name}:{verb}") not in self._complained:
            self._complained.add(key)
            log.warning("ambient state %s: cannot %s it", provider.name, verb, exc_info=True)


def _plugins() -> list[Provider]:
    """Providers of other packages; one that fails is logged and left out."""
    found: list[Provider] = []
    for entry in entry_points(group=PLUGIN_GROUP):
        try:
            loaded = entry.load()
            # A class looks like a provider: it has everything its instances have.
            is_made = isinstance(loaded, Provider) and not isinstance(loaded, type)
            made = loaded if is_made else loaded()
            found += made if isinstance(made, list | tuple) else [made]
        except Exception:
            log.warning("ambient plug-in %s is left out", entry.name, exc_info=True)
    return found
