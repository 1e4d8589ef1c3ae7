"""What the cell that runs tells a training session: the run that it is, and where it is kept.

A kernel knows what a cell's source and its inputs are; a training session in the cell, or on
ranks that the cell started, asks here. Without a kernel of ours there is nothing to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the running cell."""

    run: str
    """Name of the run: the same for the same source and inputs, wherever the loop ends."""
    store: str
    """Where its checkpoints are."""
    names: tuple[str, ...] = ()
    """Variables that the cell assigns."""
    inputs: str = ""
    """Digest of the files that earlier executions of the cell read, as they are now."""
    changed: bool = False
    """Some of those files are other ones than when they were read."""
    anew: bool = False
    """A run that was finished is made again, not restored."""


class Outputs(Protocol):
    """The outputs of the running cell."""

    def so_far(self) -> bytes:
        """What it has published, in a form of the kernel's."""

    def show_again(self, outputs: bytes) -> None:
        """Show what `so_far` returned in place of what it has published."""


class _Source:
    """Who tells, at present."""

    ask: Callable[[], Context | None] | None = None
    outputs: Outputs | None = None


def current() -> Context | None:
    """What is known of the running cell; None outside of our kernels."""
    return _Source.ask() if _Source.ask is not None else None


def provide(ask: Callable[[], Context | None] | None) -> None:
    """Say who tells from now on; None: nobody."""
    _Source.ask = ask


def outputs() -> Outputs | None:
    """The outputs of the running cell; None where nobody keeps them."""
    return _Source.outputs


def provide_outputs(kept: Outputs | None) -> None:
    """Say who keeps the outputs from now on; None: nobody."""
    _Source.outputs = kept


@contextmanager
def provided(context: Context | None) -> Iterator[None]:
    """While this lasts, this is what is known."""
    before = _Source.ask
    _Source.ask = lambda: context
    try:
        yield
    finally:
        _Source.ask = before
