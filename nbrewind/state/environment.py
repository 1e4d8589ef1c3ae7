"""Where a run happens, as far as it matters: interpreter, machine, distributions it uses."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from nbrewind.model.records import Environment
from nbrewind.state.audit import unheard

_Stamp = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Installed:
    owners: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


_known: tuple[_Stamp, _Installed] | None = None


def environment(modules: Iterable[str]) -> Environment:
    """The interpreter, the machine, and the distributions that own these modules.

    Args:
        modules: Module names; only their first parts matter. Modules of the standard
            library and of no installed distribution are left out.
    """
    tops = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    owners = owners_of_modules() if tops else {}
    distributions: dict[str, str] = {}
    for top in tops:
        distributions.update(owners.get(top, {}))
    return Environment(
        python=python_version(),
        machine=machine(),
        distributions=dict(sorted(distributions.items())),
    )


def python_version() -> str:
    """The interpreter's `major.minor`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def machine() -> str:
    """The machine's architecture, as `platform` names it."""
    return platform.machine()


def distribution_version(name: str) -> str:
    """Version of an installed distribution by its normalised name; empty if not installed."""
    return _installed().versions.get(name, "")


def owners_of_modules() -> dict[str, dict[str, str]]:
    """Top-level module → its distributions (several for namespace packages) and versions.

    Read from the metadata of all distributions on `sys.path`, and again when a package
    folder changes (`%pip install`).
    """
    return _installed().owners


def _installed() -> _Installed:
    global _known
    with unheard():
        stamp = _stamp()
        if _known is None or _known[0] != stamp:
            _known = stamp, _read(folder for folder, _ in stamp)
    return _known[1]


def _stamp() -> _Stamp:
    stamp = []
    for entry in dict.fromkeys(sys.path):
        try:
            stamp.append((entry or os.curdir, os.stat(entry or os.curdir).st_mtime_ns))
        except OSError:
            continue  # `sys.path` names an archive or a folder that does not exist
    return tuple(stamp)


def _read(folders: Iterable[str]) -> _Installed:
    installed = _Installed()
    for folder in folders:
        if not os.path.isdir(folder):
            continue
        for entry in sorted(os.listdir(folder)):
            if not entry.endswith((".dist-info", ".egg-info")):
                continue
            # `importlib.metadata` parses every METADATA file for the name and version
            # that the folder's own name tells: 30 times slower.
            name, _, version = entry.rpartition(".")[0].partition("-")
            name = name.replace("_", "-").replace(".", "-").lower()
            version = version.split("-py3")[0]
            if not version or name in installed.versions:
                continue  # the first on `sys.path` is the one that is imported
            installed.versions[name] = version
            for top in _top_levels(os.path.join(folder, entry)):
                installed.owners.setdefault(top, {})[name] = version
    return installed


def _top_levels(info: str) -> set[str]:
    """The top-level modules of a distribution."""
    listed = _text(os.path.join(info, "top_level.txt"))
    if listed is not None:
        return {line.strip().partition("/")[0] for line in listed.splitlines() if line.strip()}
    record = _text(os.path.join(info, "RECORD"))
    if record is None:
        return set()
    tops = set()
    last = ""
    for line in record.splitlines():
        first, slash, _ = line.partition("/")
        if slash:
            # Files of one folder follow one another: look at each folder once.
            if first != last and "." not in first:
                tops.add(first)
            last = first
        else:
            name = line.partition(",")[0]
            if name.endswith((".py", ".so", ".pyd")):
                tops.add(name.partition(".")[0])
    tops.discard("__pycache__")
    return tops


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
