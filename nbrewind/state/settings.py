"""Settings of the process: directory, environment, search path, warnings, decimal, locale.

Every setting is a table or a list that is versioned by its difference from the start
of the session (see `deltas`). Reading one and comparing it with the last reading is
all that happens while nothing changes.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import sys
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from itertools import takewhile
from pathlib import Path
from typing import Any

from nbrewind.model.versions import Version
from nbrewind.state.deltas import (
    TableDelta,
    apply_list,
    apply_table,
    delta_version,
    list_delta,
    pack,
    same,
    table_delta,
)
from nbrewind.state.locations import inside
from nbrewind.state.providers import START, Kind

log = logging.getLogger(__name__)

Table = dict[str, Any]


class Setting:
    """What all settings share: the start, the last reading and its version."""

    name = ""
    library = ""
    module = ""
    kind: Kind = "setting"
    mentions: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._start: Any = None
        self._last: Any = None
        self._version: Version = START

    def active(self) -> bool:
        """Whether the module that owns the setting is imported."""
        return not self.module or self.module in sys.modules

    def mark(self) -> None:
        """Take the present values as the start."""
        self._start = self._last = self.read()
        self._version = START

    def digest(self) -> Version:
        """`start`, or the version of the difference from it."""
        now = self.read()
        if not same(now, self._last):
            self._last = now
            delta = self._delta(now)
            self._version = START if self._empty(delta) else delta_version(self.name, delta)
        return self._version

    def capture(self) -> bytes | None:
        """The difference from the start; None if an option cannot be stored."""
        return pack(self._delta(self.read()))

    def restore(self, state: bytes) -> None:
        """Make the difference from the start what it was."""
        self.write(self._applied(pickle.loads(state)))

    def absorb(self, before: Any) -> None:
        """Count what changed since `before` was read as part of the start."""
        now = self.read()
        if same(now, before):
            return
        self._start = self._rebased(before, now)
        self._last = None

    def read(self) -> Any:
        """The present values as a snapshot that later changes leave alone."""
        raise TypeError(f"{type(self).__name__} does not say how to read its values")

    def write(self, values: Any) -> None:
        """Put values in force, in the form `read` returns them."""
        raise TypeError(f"{type(self).__name__} does not say how to set its values")

    def _delta(self, now: Any) -> Any:
        return table_delta(self._start, now)

    def _empty(self, delta: Any) -> bool:
        return bool(delta == ((), ()))

    def _applied(self, delta: Any) -> Any:
        return apply_table(self._start, delta)

    def _rebased(self, before: Any, now: Any) -> Any:
        change: TableDelta = table_delta(before, now)
        return apply_table(self._start, change)


class ListSetting(Setting):
    """A setting that is an ordered list."""

    def _delta(self, now: Any) -> Any:
        return list_delta(self._start, now)

    def _empty(self, delta: Any) -> bool:
        return bool(delta == ())

    def _applied(self, delta: Any) -> Any:
        return tuple(apply_list(self._start, delta))

    def _rebased(self, before: Any, now: Any) -> Any:
        # What the notebook added or removed before stays a difference from the start.
        kept = [item for item in self._start if item in now or item not in before]
        front = list(takewhile(lambda item: item not in before, now))
        back = [item for item in now[len(front) :] if item not in before]
        return (*front, *kept, *back)


class WorkingDirectory(Setting):
    """The current directory, relative to the notebook's folder if inside it."""

    name = "cwd"
    mentions = frozenset({"getcwd", "getcwdb", "chdir", "fchdir", "cwd"})

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def read(self) -> Table:
        """`{"cwd": path}`."""
        try:
            here = os.getcwd()
        except FileNotFoundError:  # somebody removed it under our feet
            return {"cwd": "<removed>"}
        return {"cwd": inside(self._root, here)}

    def write(self, values: Table) -> None:
        """Go there."""
        os.chdir(self._root / values["cwd"])


class EnvironmentVariables(Setting):
    """`os.environ`."""

    name = "environ"
    mentions = frozenset(
        {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv", "expandvars"}
    )

    def __init__(self) -> None:
        super().__init__()
        self._raw: object = None
        self._items: Table = {}

    def read(self) -> Table:
        """Names to values."""
        # Decoding a hundred variables takes longer than all other settings together.
        raw = getattr(os.environ, "_data", None)
        if raw is None or raw != self._raw:
            self._raw = dict(raw) if raw is not None else None
            self._items = dict(os.environ)
        return self._items

    def write(self, values: Table) -> None:
        """Set, change and remove variables until they are `values`."""
        _update(os.environ, values)


class SearchPath(ListSetting):
    """`sys.path`, entries inside the notebook's folder relative to it."""

    name = "sys.path"
    mentions = frozenset({"path"})

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._raw: list[str] = []
        self._items: tuple[str, ...] = ()

    def read(self) -> tuple[str, ...]:
        """The entries; `./` starts those inside the notebook's folder."""
        if sys.path != self._raw:
            self._raw = list(sys.path)
            self._items = tuple(self._named(entry) for entry in self._raw)
        return self._items

    def write(self, values: tuple[str, ...]) -> None:
        """Replace the list's content; the list stays the same object."""
        known = {self._named(entry): entry for entry in sys.path}
        sys.path[:] = [known.get(item, self._path(item)) for item in values]

    def _named(self, entry: str) -> str:
        if not isinstance(entry, str) or not os.path.isabs(entry):
            return entry
        short = inside(self._root, entry)
        return short if os.path.isabs(short) else f"./{short}"

    def _path(self, item: str) -> str:
        return str(self._root / item[2:]) if item.startswith("./") else item


class WarningFilters(ListSetting):
    """`warnings.filters`."""

    name = "warnings"
    library = "warnings"
    mentions = frozenset({"filters", "showwarning", "formatwarning", "catch_warnings"})

    def __init__(self) -> None:
        super().__init__()
        self._raw: list[Any] = []
        self._items: tuple[Any, ...] = ()

    def read(self) -> tuple[Any, ...]:
        """Each filter as (action, message, category's module and name, module, line)."""
        if warnings.filters != self._raw:
            self._raw = list(warnings.filters)
            self._items = tuple(_plain_filter(*entry) for entry in self._raw)
        return self._items

    def write(self, values: tuple[Any, ...]) -> None:
        """Replace the filters; those about categories that are not loaded are left out."""
        rebuilt = [entry for entry in map(_live_filter, values) if entry is not None]
        live: Any = warnings.filters
        live[:] = rebuilt
        for mutated in ("_filters_mutated", "_filters_mutated_lock_held"):
            notify = getattr(warnings, mutated, None)
            if notify is not None:
                with _filter_lock():
                    notify()
                break


class DecimalContext(Setting):
    """The `decimal` context of this thread."""

    name = "decimal"
    library = "decimal"
    module = "decimal"
    mentions = frozenset({"getcontext", "setcontext", "localcontext"})

    def read(self) -> Table:
        """Precision, rounding, exponent limits and traps; not the sticky flags."""
        context = sys.modules["decimal"].getcontext()
        return {
            "prec": context.prec,
            "rounding": context.rounding,
            "Emin": context.Emin,
            "Emax": context.Emax,
            "capitals": context.capitals,
            "clamp": context.clamp,
            "traps": tuple(sorted(kind.__name__ for kind, on in context.traps.items() if on)),
        }

    def write(self, values: Table) -> None:
        """Change the present context in place."""
        decimal = sys.modules["decimal"]
        context = decimal.getcontext()
        for field in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp"):
            setattr(context, field, values[field])
        for kind in list(context.traps):
            context.traps[kind] = kind.__name__ in values["traps"]


class Locale(Setting):
    """The C locale, for all categories."""

    name = "locale"
    library = "locale"
    module = "locale"
    mentions = frozenset({"setlocale", "getlocale", "localeconv", "nl_langinfo"})

    def read(self) -> Table:
        """`{"all": description}`, as `locale.setlocale` returns it."""
        locale = sys.modules["locale"]
        return {"all": locale.setlocale(locale.LC_ALL)}

    def write(self, values: Table) -> None:
        """Set all categories."""
        locale = sys.modules["locale"]
        locale.setlocale(locale.LC_ALL, values["all"])


def process_settings(root: Path) -> list[Setting]:
    """The settings of the process and the standard library."""
    return [
        WorkingDirectory(root),
        EnvironmentVariables(),
        SearchPath(root),
        WarningFilters(),
        DecimalContext(),
        Locale(),
    ]


def _update(live: Any, values: Mapping[str, Any]) -> None:
    for key in [key for key in live if key not in values]:
        del live[key]
    for key, value in values.items():
        if live.get(key) != value:
            live[key] = value


def _plain_filter(action: str, message: Any, category: Any, module: Any, line: int) -> Any:
    kinds = category if isinstance(category, tuple) else (category,)
    names = tuple((kind.__module__, kind.__qualname__) for kind in kinds)
    return action, _plain_pattern(message), names, _plain_pattern(module), line


def _plain_pattern(pattern: Any) -> Any:
    return (pattern.pattern, pattern.flags) if isinstance(pattern, re.Pattern) else pattern


def _live_filter(entry: Any) -> Any:
    action, message, names, module, line = entry
    categories = []
    for owner, qualname in names:
        found: Any = sys.modules.get(owner)
        for part in qualname.split("."):
            found = getattr(found, part, None)
        if not isinstance(found, type):
            log.warning("warning filter left out: %s.%s is not loaded", owner, qualname)
            return None
        categories.append(found)
    category = categories[0] if len(categories) == 1 else tuple(categories)
    return action, _live_pattern(message), category, _live_pattern(module), line


def _live_pattern(pattern: Any) -> Any:
    return re.compile(*pattern) if isinstance(pattern, tuple) else pattern


def _filter_lock() -> Any:
    # Python 3.14 wants the module's lock held; before, there was none.
    return getattr(warnings, "_lock", None) or nullcontext()
