"""Paths that a cell names: in its text, in the values it reads, in the code it calls."""

from __future__ import annotations

import argparse
import glob
import os
import re
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath
from typing import Any

from nbrewind.state.file_modes import is_updating

_LONGEST = 1024
_MOST_VALUES = 2000
_MOST_INSIDE = 100
"""Values of one container that are looked at: of a list of a million numbers none is a path."""
_DEEPEST = 3
# By identity: a metaclass may compare and hash its classes as it likes.
_NUMBERS = frozenset(map(id, (int, float, bool, complex, bytes, type(None))))
_PLAIN = frozenset(map(id, (list, tuple, set, frozenset)))
_RECORDS = frozenset(map(id, (types.SimpleNamespace, argparse.Namespace)))
_OPENING = frozenset({"mode", "open", "File", "Dataset", "open_group", "HDFStore", "open_file"})
_OTHER = frozenset({"w", "wb", "wt", "r", "rb"})
_END = re.compile(r"[\w./ -]*\.\w{1,8}")
_START = re.compile(r"[\w.-][\w./-]*[/_-]")


@dataclass(frozen=True)
class Named:
    """The texts that may be paths, or parts of paths, and where they lead."""

    texts: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    """Absolute, of things there and not there."""
    folders: tuple[str, ...] = ()
    """Those of `paths` that are folders, each with a separator at its end."""
    starts: tuple[str, ...] = ()
    """How paths that are put together, and patterns with wildcards, begin; absolute."""
    ends: tuple[str, ...] = ()
    """How paths that are put together end."""
    updates: bool = False
    """A file may be opened to change it in place, or only if it is not there."""
    words: frozenset[str] = frozenset()
    """Names and attributes that the code uses."""

    def names(self, path: str) -> bool:
        """Whether a path is named, as itself or by a folder that it is in."""
        return (
            path in self.paths
            or path.startswith(self.folders)
            or path.startswith(self.starts)
            or path.endswith(self.ends)
            # A database and its journal, a figure and its parts.
            or any(
                path.startswith((f"{p}.", f"{p}-", f"{os.path.splitext(p)[0]}."))
                for p in self.paths
            )
        )

    def lists(self, folder: str) -> bool:
        """Whether a folder may be listed by something that is named."""
        inside = folder + os.sep
        return inside.startswith((*self.folders, *self.starts)) or any(
            start.startswith(inside) and os.sep not in start[len(inside) :] for start in self.starts
        )


def named(
    texts: Iterable[str],
    modes: Iterable[str],
    words: Iterable[str],
    values: Iterable[Any],
    folder: str,
) -> Named:
    """Find out what is named.

    Args:
        texts: String constants of a cell.
        modes: Those that may be modes in which it opens files.
        words: Names and attributes it uses.
        values: What the names it reads are bound to.
        folder: The working folder.
    """
    values = list(_with_local_code(values, folder))
    codes = [value.__code__ for value in values if type(value) is types.FunctionType]
    updates = any(map(is_updating, modes)) or any(map(_may_update, codes))
    found = {text for text in texts if 0 < len(text) <= _LONGEST}
    for text in _texts_of(values):
        if 0 < len(text) <= _LONGEST:
            found.add(text)
        if len(found) > _MOST_VALUES:
            break
    paths: set[str] = set()
    starts: set[str] = set()
    ends: set[str] = set()
    for text in found:
        if "\n" in text or "\0" in text:
            continue
        if glob.has_magic(text):
            starts.add(_start_of(text, folder))
        elif text.strip(" ./") and "://" not in text:
            paths.add(os.path.normpath(os.path.join(folder, os.path.expanduser(text))))
            # Parts of paths that are put together: f"{stem}_out.h5", f"model_{n}".
            if len(text) > 2 and _END.fullmatch(text):
                ends.add(text)
            if len(text) > 2 and _START.fullmatch(text):
                starts.add(
                    os.path.normpath(os.path.join(folder, text)) + text[-1] * (text[-1] == "/")
                )
    folders = tuple(sorted(f"{p}{os.sep}" for p in paths if p != os.sep and os.path.isdir(p)))
    return Named(
        texts=frozenset(found),
        paths=frozenset(paths),
        folders=folders,
        starts=tuple(sorted(starts)),
        ends=tuple(sorted(ends)),
        updates=updates,
        words=frozenset(words).union(*(_words_of(code) for code in codes)),
    )


def _start_of(pattern: str, folder: str) -> str:
    """Where a pattern begins to vary: its folders without wildcards."""
    parts = []
    for part in pattern.split(os.sep):
        if glob.has_magic(part):
            break
        parts.append(part)
    fixed = os.sep.join(parts)
    if pattern.startswith(os.sep) and not fixed:
        fixed = folder  # the end of a path that is put together
    base = os.path.normpath(os.path.join(folder, os.path.expanduser(fixed)))
    return base.rstrip(os.sep) + os.sep


def _texts_of(values: Iterable[Any]) -> Iterator[str]:
    """Texts and paths in values: in plain containers, simple objects and functions."""
    front = _inside(values, -1)
    for count, (value, depth) in enumerate(front):  # grows
        if count > _MOST_VALUES:
            return
        kind = type(value)
        if kind is str:
            yield value
        elif issubclass(kind, PurePath):
            yield str(value)
        elif depth >= _DEEPEST:
            continue
        elif id(kind) in _PLAIN:
            front += _inside(islice(value, _MOST_INSIDE), depth)
        elif kind is dict:
            front += _inside(islice(value.values(), _MOST_INSIDE), depth)
        elif kind is types.FunctionType:
            front += _inside(_constants(value.__code__), depth - 1)
            front += _inside(value.__defaults__ or (), depth)
        elif id(kind) in _RECORDS or (kind.__module__ == "__main__" and not issubclass(kind, type)):
            # Of other classes nobody knows what looking at an instance sets off.
            attributes = object.__getattribute__(value, "__dict__") if _has_dict(kind) else {}
            front += _inside(islice(attributes.values(), _MOST_INSIDE), depth)


def _with_local_code(values: Iterable[Any], folder: str) -> Iterator[Any]:
    """Values, and the functions and texts of the classes and local modules among them."""
    seen: set[str] = set()
    for value in values:
        kind = type(value)
        if id(kind) in _NUMBERS:
            continue
        yield value
        is_class = issubclass(kind, type)
        if not (is_class or kind is types.FunctionType or kind is types.ModuleType):
            continue
        name = value.__name__ if kind is types.ModuleType else value.__module__
        if is_class and name == "__main__":
            yield from _methods(value)
        elif name not in seen and name != "__main__":
            seen.add(name)
            yield from _code_of_module(name, folder)


def _code_of_module(name: str, folder: str) -> Iterator[Any]:
    """What a module of the project consists of; nothing of other modules."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None) or ""
    if not file.startswith(folder + os.sep) or "-packages" in file:
        return
    for value in list(vars(module).values()):
        kind = type(value)
        if kind in (types.FunctionType, str) or issubclass(kind, PurePath):
            yield value
        elif issubclass(kind, type) and value.__module__ == name:
            yield from _methods(value)


def _methods(kind: type) -> Iterator[types.FunctionType]:
    for method in list(vars(kind).values()):
        function = method.__func__ if type(method) in (staticmethod, classmethod) else method
        if type(function) is types.FunctionType:
            yield function


def _inside(values: Iterable[Any], depth: int) -> list[tuple[Any, int]]:
    return [(value, depth + 1) for value in values if id(type(value)) not in _NUMBERS]


_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def _has_dict(kind: type) -> bool:
    """Whether instances keep their attributes as usual, so that looking sets nothing off."""
    return any(isinstance(vars(base).get("__dict__"), _SLOTS) for base in kind.__mro__)


def _constants(code: types.CodeType) -> Iterator[Any]:
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _constants(constant)
        else:
            yield constant


def _may_update(code: types.CodeType) -> bool:
    """Whether a function opens a file in a mode in which what is there already matters."""
    constants = list(_constants(code))
    words = {word for constant in constants if type(constant) is tuple for word in constant}
    if _OPENING.isdisjoint({*code.co_names, *words}):
        return False
    modes = {text for text in constants if type(text) is str and is_updating(text)}
    # Where another mode is used, a single letter is likely to be a key or a column.
    return bool(modes - {"a", "x"}) or (bool(modes) and _OTHER.isdisjoint(map(str, constants)))


def _words_of(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if type(constant) is types.CodeType)
    return set(code.co_names).union(*map(_words_of, inner))
