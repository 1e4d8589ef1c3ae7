"""Validity: whether a record's inputs are those that are current now.

`Situation` holds the current versions; `mismatches` compares a record with them
and names every difference; `Situation.apply` does to the versions what the
record's run did. None of this touches a value: the same code serves a live
kernel and `nbrewind status`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from nbrewind.model.reasons import Reason
from nbrewind.model.records import (
    FLAGS,
    UNSAFE_FLAGS,
    ExecutionRecord,
    FileAccess,
    ModuleRead,
    Result,
    is_place_name,
    is_variable_name,
    plain_name,
)
from nbrewind.model.versions import ABSENT, ENTROPY, PRESENT, Version
from nbrewind.state.digests import listing_version
from nbrewind_analysis.table import VersionTable

EnvironmentPolicy = Literal["rerun", "accept"]

START: Version = "start"
"""Version of a setting that the notebook has not changed."""

PATCH = "patch:"
"""Prefix of the ambient state that consists of what a notebook set in a package."""

RESULT_NAMES = ("_", "__", "___")


class Surroundings(Protocol):
    """Where versions of things outside the notebook's state come from."""

    def file(self, path: str, recorded: Version) -> Version:
        """Version of a file or folder on disk now, to compare with a recorded one."""

    def listing(self, path: str) -> frozenset[str] | None:
        """The names in a folder on disk now; None if it is no folder."""

    def module(self, read: ModuleRead) -> Version:
        """Version of a local module as this process has it, or would import it."""

    def linked(self, modules: Iterable[str]) -> set[str]:
        """Local modules whose code may run when code uses some modules."""

    def local_modules(self, used: Iterable[str], imported: Iterable[str]) -> list[str]:
        """Names and versions of local modules whose code may run when code uses or imports some."""

    def distribution(self, name: str) -> str:
        """Version of an installed distribution; empty if it is not installed."""

    def platform(self) -> tuple[str, str]:
        """Python `major.minor` and machine."""

    def equivalent(self, record: ExecutionRecord, name: str, table: VersionTable) -> bool:
        """Whether the recorded and the current value of a name are equal all the same."""


class Situation:
    """The versions of everything a cell can read, at one moment."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.table = VersionTable(surroundings.linked)
        self.ambient: dict[str, Version] = {}
        """Versions of ambient state that is not as it was at the start."""
        self.files: dict[str, Version] = {}
        """Versions of files that differ from what is on disk, because reuse wrote them."""
        self.results: list[Result | None] = []
        """Results of the cells so far that had one, newest last."""

    def copy(self) -> Situation:
        """An independent situation with the same versions."""
        twin = Situation(self.surroundings)
        twin.table = self.table.copy()
        twin.ambient = dict(self.ambient)
        twin.files = dict(self.files)
        twin.results = list(self.results)
        return twin

    def ambient_version(self, provider: str) -> Version | None:
        """Current version of ambient state; None if it is as at the start."""
        return self.ambient.get(provider)

    def file_version(self, path: str, recorded: Version) -> Version:
        """Current version of a file or folder, be it on disk already or not."""
        known = self.files.get(path)
        if known == ABSENT or (known is not None and recorded == PRESENT):
            return PRESENT if known != ABSENT else ABSENT
        if known not in (None, PRESENT):
            return known
        on_disk = self.surroundings.listing(path) if self.files else None
        if known is None and on_disk is None:
            version = self.surroundings.file(path, recorded)
            if version != ABSENT or not self.files:
                return version
        # A folder, on disk or made by reuse (`present`), of which reuse may have changed more.
        changed = self._changed_names(path)
        if known is None and (on_disk is None or not changed) and not any(changed.values()):
            return self.surroundings.file(path, recorded)
        if recorded == PRESENT:
            return PRESENT
        names = set(on_disk or ()).difference(changed)
        return listing_version(names.union(name for name, there in changed.items() if there))

    def _changed_names(self, folder: str) -> dict[str, bool]:
        """What reuse put into a folder (True) or took away (False) that disk does not show."""
        above = "" if folder == "." else f"{folder.rstrip('/')}/"
        changed: dict[str, bool] = {}
        for path, version in self.files.items():
            if not path.startswith(above) or (not above and path.startswith("/")):
                continue
            name, _, deeper = path[len(above) :].partition("/")
            if version != ABSENT:
                changed[name] = True
            elif not deeper:
                changed.setdefault(name, False)
        return changed

    def version(self, name: str) -> Version:
        """Version of a name; `_`, `__` and `___` are results unless the notebook binds them."""
        if name in RESULT_NAMES and name not in self.table:
            return self._result_version(name)
        return self.table.own(name)

    def is_plain_result(self, name: str) -> bool:
        """Whether a result is a value nobody can change, or there is none."""
        if name not in RESULT_NAMES:
            return False
        result = self.results[-len(name)] if len(self.results) >= len(name) else None
        return result is None or result.value is not None

    def _result_version(self, name: str) -> Version:
        back = len(name)
        if len(self.results) < back:
            return ABSENT
        result = self.results[-back]
        return ABSENT if result is None else result.version

    def apply(self, record: ExecutionRecord) -> None:
        """Do to the versions what the record's run did."""
        writes = record.writes
        self.table.drop((*writes.rebound, *writes.deleted))
        for group in writes.groups:
            self.table.put(group)
        for access in record.ambient:
            if access.write is not None:
                self.ambient[access.provider] = access.write
        for file in record.files:
            if file.write is not None:
                self.files[file.path] = file.write
        if record.result is not None:
            self.results.append(record.result)
        self.table.sweep()


def mismatches(
    record: ExecutionRecord, now: Situation, policy: EnvironmentPolicy = "rerun"
) -> list[Reason]:
    """Every difference between what a record read and what is current.

    Returns:
        Reasons, the most telling first; empty if the record's inputs are all current.
    """
    return [
        *_name_mismatches(record, now),
        *_sharing_mismatches(record, now.table),
        *_ambient_mismatches(record, now),
        *_file_mismatches(record, now),
        *_module_mismatches(record, now),
        *_environment_mismatches(record, now, policy),
    ]


def unsafe(record: ExecutionRecord, cache_policy: str) -> list[Reason]:
    """Why a record whose inputs match is not reused all the same."""
    if record.status != "ok":
        return [Reason("previous-error", "", record.error or record.status)]
    if cache_policy == "always":
        return []
    return [
        Reason("unsafe", flag, f"the recorded run {FLAGS.get(flag, 'did something unknown')}")
        for flag in record.flags
        if flag in UNSAFE_FLAGS or flag not in FLAGS
    ]


def _name_mismatches(record: ExecutionRecord, now: Situation) -> list[Reason]:
    reasons = []
    table = now.table
    for name, recorded in record.reads.versions.items():
        current = now.version(name)
        if current == recorded or (recorded == PRESENT and current != ABSENT):
            continue
        if (
            ABSENT not in (current, recorded)
            and name in table
            and now.surroundings.equivalent(record, name, table)
        ):
            continue
        change = _change(recorded, current)
        if is_place_name(name):
            change = f"the state of this module: {change}"
        reasons.append(Reason("input-changed", plain_name(name), change))
    if record.reads.dynamic:
        reasons += [
            Reason("input-changed", name, "the cell may read every name, and this one is new")
            for name in table
            if name not in record.reads.versions and is_variable_name(name)
        ]
    return reasons


def _change(recorded: Version, current: Version) -> str:
    if recorded == ABSENT:
        return "it did not exist when the cell was recorded"
    if current == ABSENT:
        return "it does not exist now"
    return "its value differs from the recorded one"


def _sharing_mismatches(record: ExecutionRecord, table: VersionTable) -> list[Reason]:
    reads = record.reads
    if table.sharing(reads.versions) != reads.sharing:
        return [Reason("sharing-changed", "", "names it reads share state in another way")]
    rebound = frozenset((*record.writes.rebound, *record.writes.deleted))
    for former in reads.former:
        if not former.joint:
            if former.names[0] in table.entities_kept_without(record.writes.written):
                return [Reason("sharing-changed", plain_name(former.names[0]), "it is in use now")]
            continue
        group = table.group(former.names[0])
        rest = None if group is None else group.without(rebound - frozenset(former.names))
        if rest is None or tuple(sorted(rest.names)) != former.names:
            return [
                Reason("sharing-changed", plain_name(former.names[0]), "other names share it now")
            ]
        if rest.joint() != former.joint:
            return [
                Reason("sharing-changed", plain_name(former.names[0]), "a value sharing it differs")
            ]
    return []


def definitions_in_use(record: ExecutionRecord, now: Situation, *, rerun: bool) -> list[Reason]:
    """Functions and classes the run made anew while other values hold on to equal ones.

    The run would have made a second object, and `isinstance` tells them apart. Only where
    the very same cell is run again in a live session do both become one, so that running a
    notebook twice does not change everything that holds a function or a class.
    """
    table, reads = now.table, record.reads
    kept: set[str] | None = None
    lost = frozenset((*record.writes.rebound, *record.writes.deleted))
    for group in record.writes.groups:
        for name, variable in group.variables.items():
            if not name.startswith("@") or name not in table:
                continue
            if name in reads.versions and name not in record.writes.rebound:
                continue
            if rerun and table.own(name) == variable.own:
                continue
            if kept is None:
                kept = table.entities_kept_without(lost)
            if name in kept:
                return [
                    Reason("sharing-changed", plain_name(name), "an equal definition is in use")
                ]
    return []


def _ambient_mismatches(record: ExecutionRecord, now: Situation) -> list[Reason]:
    reasons = []
    for access in record.ambient:
        if access.read is None:
            continue
        current = now.ambient_version(access.provider)
        if current == access.read or (current is None and access.read in (ENTROPY, START)):
            continue
        reasons.append(Reason("ambient-changed", access.provider, "it is in another state"))
    known = {access.provider for access in record.ambient}
    for provider in now.ambient:
        package = provider.removeprefix(PATCH)
        if package != provider and package in record.packages and provider not in known:
            reasons.append(Reason("ambient-changed", provider, "it was not patched then"))
    return reasons


def _file_mismatches(record: ExecutionRecord, now: Situation) -> list[Reason]:
    reasons = []
    for access in record.files:
        current = access.read and now.file_version(access.path, access.read)
        if current != access.read:
            reasons.append(Reason("file-changed", access.path, _file_change(access.read, current)))
        elif (
            _must_be_there(access)
            and now.file_version(access.path, access.write or ABSENT) != access.write
        ):
            reasons.append(Reason("file-changed", access.path, "the cell wrote it, and it differs"))
    return reasons


def _file_change(recorded: Version | None, current: Version | None) -> str:
    if ABSENT in (recorded, current):
        return _change(recorded or ABSENT, current or ABSENT)
    return "its content differs"


def _must_be_there(access: FileAccess) -> bool:
    """Whether a written file cannot be put back: outside the folder, or not kept."""
    if access.write is None:
        return False
    kept = access.content is not None or access.directory or bool(access.link)
    kept = kept or access.write == ABSENT
    return access.path.startswith("/") or not kept


def _module_mismatches(record: ExecutionRecord, now: Situation) -> list[Reason]:
    return [
        Reason("module-changed", read.name, f"{read.path} differs")
        for read in record.modules
        if now.surroundings.module(read) != read.version
    ]


def _environment_mismatches(
    record: ExecutionRecord, now: Situation, policy: EnvironmentPolicy
) -> list[Reason]:
    return [] if policy == "accept" else environment_changes(record, now)


def environment_changes(record: ExecutionRecord, now: Situation) -> list[Reason]:
    """How Python, the machine and the distributions a run used differ from what is there now."""
    recorded = record.environment
    python, machine = now.surroundings.platform()
    reasons = []
    if recorded.python and recorded.python != python:
        reasons.append(Reason("environment-changed", "python", f"recorded under {recorded.python}"))
    if recorded.machine and recorded.machine != machine:
        reasons.append(Reason("environment-changed", "machine", f"recorded on {recorded.machine}"))
    for name, version in recorded.distributions.items():
        current = now.surroundings.distribution(name)
        if current != version:
            reasons.append(
                Reason("environment-changed", name, f"recorded with {version}, now {current}")
            )
    return reasons
