"""File objects: a closed one is only a name and a mode; an open one is a live thing.

`with open(…) as file:` leaves a closed file behind in very many notebooks. It is
restored as a closed file, without touching the file it was. The standard streams of
the process, which many objects hold on to, are what they are in every session.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_STANDARD = ("stdout", "stderr", "stdin", "__stdout__", "__stderr__", "__stdin__")
_BUFFERED: dict[type, str] = {
    io.BufferedReader: "rb",
    io.BufferedWriter: "wb",
    io.BufferedRandom: "r+b",
}


def reduce_file(pickler: StatePickler, file: Any) -> Any:
    """Reduce a closed file; raises `NotStorable` for an open one, or one of another kind."""
    kind = type(file)
    for name in _STANDARD:
        if getattr(sys, name, None) is file:
            pickler.ignored.add(id(file))
            return getattr, (sys, name)
    if kind in (io.BytesIO, io.StringIO):
        return NotImplemented
    if not getattr(file, "closed", False):
        raise NotStorable(f"an open file ({getattr(file, 'name', '?')}) cannot be stored")
    if kind is io.FileIO:
        return make_closed_file, (file.name, file.mode)
    buffer = file.buffer if kind is io.TextIOWrapper else file
    if type(buffer) not in _BUFFERED or type(buffer.raw) is not io.FileIO:
        raise NotStorable(f"a file of type {kind.__qualname__} cannot be stored")
    text = None
    if kind is io.TextIOWrapper:
        text = (file.encoding, file.errors, file.line_buffering, getattr(file, "mode", None))
    return make_closed_stream, (buffer.raw.name, _BUFFERED[type(buffer)], text)


def make_closed_file(name: Any, mode: str) -> io.FileIO:
    """A closed raw file that says it was `name`."""
    with io.FileIO(os.devnull, mode.replace("b", "").replace("x", "w")) as file:
        file.name = name
    return file


def make_closed_stream(
    name: Any, mode: str, text: tuple[str, str, bool, str | None] | None
) -> io.IOBase:
    """A closed buffered file or, with an encoding and so on, a closed text file."""
    raw: Any = io.FileIO(os.devnull, mode.replace("b", ""))
    raw.name = name
    (kind,) = (kind for kind, its_mode in _BUFFERED.items() if its_mode == mode)
    file = kind(raw)
    if text is not None:
        encoding, errors, line_buffering, text_mode = text
        file = io.TextIOWrapper(file, encoding, errors, None, line_buffering)
        if text_mode is not None:
            setattr(file, "mode", text_mode)  # noqa: B010 (typeshed has it read-only)
    file.close()
    return file  # type: ignore[no-any-return]
