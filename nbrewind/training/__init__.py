"""Training state that knows nothing of the layout it was saved in, and cells that resume.

Nothing is imported before it is asked for: torch takes seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbrewind.training.checkpointer import Checkpointer as Checkpointer
    from nbrewind.training.checkpointer import load as load
    from nbrewind.training.checkpointer import save as save
    from nbrewind.training.launching.launch import launch as launch
    from nbrewind.training.sessions import session as session

_PLACES = {
    "Checkpointer": "nbrewind.training.checkpointer",
    "load": "nbrewind.training.checkpointer",
    "save": "nbrewind.training.checkpointer",
    "launch": "nbrewind.training.launching.launch",
    "session": "nbrewind.training.sessions",
}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]
