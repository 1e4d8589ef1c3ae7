"""What a piece of ambient state must be able to do to be versioned and restored.

Ambient state is state outside the namespace that code depends on: random number
generators, the working directory, environment variables, options of libraries.
Plug-ins add providers through the entry-point group `nbrewind.ambient`: an entry
point names a `Provider`, a callable without arguments that returns one, or a
callable that returns several.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

from nbrewind.model.versions import Version

START: Version = "start"
"""The version of a setting that nobody changed since the session started.

Settings are versioned as a difference from the start of the session, so that
values which only tell where a session runs are part of no version.
"""

Kind = Literal["rng", "setting"]


@runtime_checkable
class Provider(Protocol):
    """One piece of ambient state."""

    name: str
    """Stable name; part of every record that uses it."""
    library: str
    """Top-level module that code must be able to reach to depend on it; `""`: any code."""
    module: str
    """Module whose import makes it active; `""`: always active."""
    kind: Kind
    mentions: frozenset[str]
    """Attribute and function names whose use in code means that it looks at this state itself."""

    def active(self) -> bool:
        """Whether its library is imported, so that it has a state."""

    def mark(self) -> None:
        """Take the present state as the start of the session."""

    def digest(self) -> Version:
        """Version of the present state; called before and after every cell, so it must be fast."""

    def capture(self) -> bytes | None:
        """The present state as bytes; None if it holds something that cannot be stored."""

    def restore(self, state: bytes) -> None:
        """Put a captured state in force."""


@runtime_checkable
class Rebasing(Protocol):
    """What a provider may have besides: a start that follows what imports of libraries change."""

    def read(self) -> object:
        """The present values, as `absorb` wants them."""

    def absorb(self, before: Any) -> None:
        """Count what changed since `before` was read as part of the start."""
