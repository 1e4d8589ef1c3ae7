"""Execution records: one run of one cell, with everything it read and wrote.

A record maps the versions a cell read to the versions it wrote plus its outputs
(a constructive trace). The format is specified in `docs/spec/record-format.md`.
Names that start with `@` are *entities*: functions and classes of the notebook,
which are versioned apart from the names bound to them.
"""

from __future__ import annotations

import msgspec

from nbrewind.model.blobs import BlobRef, ObjectId
from nbrewind.model.versions import Version, combine

RECORD_FORMAT = 1


PLACE = "%"
"""First character of names of places: state outside the namespace, of a module say."""


def is_place_name(name: str) -> bool:
    """Whether a name of the version table stands for a place."""
    return name.startswith(PLACE)


def is_variable_name(name: str) -> bool:
    """Whether a name is one of the namespace: neither an entity nor a place."""
    return not name.startswith(("@", PLACE))


def plain_name(name: str) -> str:
    """A name as people know it: an entity by its definition's, a place by its module's."""
    return name[1:].split(":")[0] if name.startswith(("@", PLACE)) else name


class Uses(msgspec.Struct, frozen=True, omit_defaults=True):
    """What code reachable from a value may touch when it runs."""

    loads: tuple[str, ...] = ()
    """Global names it loads."""
    stores: tuple[str, ...] = ()
    """Global names it stores or deletes."""
    attributes: tuple[str, ...] = ()
    """Attribute names it uses: tells which ambient state it may consult."""
    entities: tuple[str, ...] = ()
    """Notebook functions and classes it refers to."""
    modules: tuple[str, ...] = ()
    """Modules its stream or code refers to by name."""
    dynamic: bool = False
    """It may read or write any name (`eval`, `globals()`, code that cannot be seen)."""


class Variable(msgspec.Struct, frozen=True, omit_defaults=True):
    """One name's value at one time."""

    own: Version
    """Version of the value as this name alone sees it."""
    type: str = ""
    """Qualified type name, for people."""
    size: int = 0
    """Bytes of stream and buffers."""
    uses: Uses = Uses()


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """A co-variable: names whose values share mutable state."""

    variables: dict[str, Variable]
    sharing: dict[str, str] = {}
    """`"a\\0b"` (a < b) → digest of which positions of the two streams are one object."""
    manifest: ObjectId | None = None
    """Where the values are stored; None if they are not storable."""
    producer: ObjectId = b""
    """Record whose run made these values; empty inside that record itself."""

    @property
    def names(self) -> frozenset[str]:
        """The names of this co-variable."""
        return frozenset(self.variables)

    def joint(self) -> str:
        """Digest of all own versions and of how they share."""
        parts = [f"{name}={var.own}" for name, var in sorted(self.variables.items())]
        parts += [f"{pair}={how}" for pair, how in sorted(self.sharing.items())]
        return combine("joint", parts)

    def without(self, gone: frozenset[str]) -> Group | None:
        """The rest of this co-variable after names were rebound; None if nothing is left."""
        left = {name: var for name, var in self.variables.items() if name not in gone}
        if not left:
            return None
        return msgspec.structs.replace(
            self, variables=left, sharing=restrict_sharing(self.sharing, frozenset(left))
        )


def restrict_sharing(sharing: dict[str, str], names: frozenset[str]) -> dict[str, str]:
    """The part of a sharing table that is about `names` only."""
    return {p: how for p, how in sharing.items() if names.issuperset(p.split("\0"))}


class FormerGroup(msgspec.Struct, frozen=True):
    """A co-variable as it was before a run that mutated it or tied others to it."""

    names: tuple[str, ...]
    joint: str


class Reads(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run may have read of the namespace."""

    versions: dict[str, Version] = {}
    """Own version of each name; `absent` where it was not there."""
    sharing: dict[str, str] = {}
    """How the names read share state among each other."""
    former: tuple[FormerGroup, ...] = ()
    """Co-variables that must match as a whole, because the run changed them."""
    manifests: dict[str, ObjectId] = {}
    """Where the value of a name read can be loaded from, to run this cell again alone."""
    producers: dict[str, ObjectId] = {}
    """Record that made the value of a name read that is not stored."""
    dynamic: bool = False
    """The run may have read every name, also such as did not exist."""


class Writes(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run left in the namespace."""

    groups: tuple[Group, ...] = ()
    """Every co-variable that is new, changed or regrouped, whole."""
    written: tuple[str, ...] = ()
    """The names among them that the run stored or whose value it changed."""
    rebound: tuple[str, ...] = ()
    """The names among `written` that were bound anew, so their former value is of no account."""
    deleted: tuple[str, ...] = ()


class AmbientAccess(msgspec.Struct, frozen=True, omit_defaults=True):
    """One piece of ambient state (a random number generator, an option table, …)."""

    provider: str
    read: Version | None = None
    write: Version | None = None
    state: bytes | None = None
    """The state after the run, to restore it; set where `write` is."""
    start: bytes | None = None
    """The state before the run where `read` is `entropy`, so that a replay can start there."""


class FileAccess(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file that a run opened."""

    path: str
    """Relative to the notebook's folder with `/` if inside it, else absolute."""
    read: Version | None = None
    """Content version before the run; `absent` if it looked for a file that was not there."""
    write: Version | None = None
    """Content version after the run; `absent` if the run removed it."""
    content: BlobRef | None = None
    """Stored content after the run; None if not written, removed, outside or too large."""
    mode: int = 0o644
    """Permission bits of a written file."""
    directory: bool = False
    """It is a directory that the run made or removed."""
    link: str = ""
    """Where it leads, if the run made it a symbolic link, as the link says it."""


class ModuleRead(msgspec.Struct, frozen=True):
    """A local (project) module whose code a run may have used."""

    name: str
    path: str
    version: Version
    """Content version of its source file."""


class SessionEffects(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run changed in the process besides names, ambient state and files."""

    imports: tuple[str, ...] = ()
    """Additions to `sys.modules`, in order."""
    others: tuple[str, ...] = ()
    """Effects that only running the cell brings back: `ipython:magics`, `patch:pandas`, …"""


class Environment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a run happened, as far as it matters to its result."""

    python: str = ""
    """`major.minor`."""
    machine: str = ""
    distributions: dict[str, str] = {}
    """Version of each installed distribution that owns a module the cell reached."""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of the cell's last expression, as `_` and `Out[n]` show it."""

    version: Version
    alias: str = ""
    """A name that was bound to the very same object after the run."""
    value: bytes | None = None
    """Pickle of a small immutable value."""


class ExecutionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of one cell."""

    format: int = RECORD_FORMAT
    source: str
    source_digest: str
    raw_source: bool = False
    """The run could see its own text (`inspect.getsource`, `In`): comments count too."""
    cell_id: str = ""
    ordinal: int = -1
    """Position among the cells run in its session, from 0; a hint only."""
    notebook: str = ""
    started: float = 0.0
    """Seconds since the epoch, UTC."""
    seconds: float = 0.0
    """Wall-clock seconds of the user's code, without capture."""
    cpu_seconds: float = 0.0
    stages: dict[str, tuple[float, int]] = {}
    """Seconds of capture by stage, and the bytes each worked on; see `nbrewind.model.spans`."""
    peak_bytes: int = 0
    """Peak resident memory of the process after the run."""
    host: str = ""
    reads: Reads = Reads()
    writes: Writes = Writes()
    ambient: tuple[AmbientAccess, ...] = ()
    files: tuple[FileAccess, ...] = ()
    modules: tuple[ModuleRead, ...] = ()
    packages: tuple[str, ...] = ()
    """Packages and local modules the run could reach: patching one of them concerns it."""
    effects: SessionEffects = SessionEffects()
    environment: Environment = Environment()
    outputs: BlobRef | None = None
    """MessagePack list of `OutputMessage`; None if the cell printed nothing."""
    result: Result | None = None
    status: str = "ok"
    """`ok`, `error` or `interrupted`; only `ok` is ever reused."""
    error: str = ""
    """`ename: evalue` of a run that raised."""
    flags: tuple[str, ...] = ()
    """See `FLAGS`."""

    def recipe(self) -> str:
        """Digest of everything the run started from: names what it made if that is unstorable."""
        parts = [self.source_digest]
        parts += [f"{n}={v}" for n, v in sorted(self.reads.versions.items())]
        parts += [f"{a.provider}={a.read}" for a in self.ambient if a.read]
        parts += [f"{f.path}={f.read}" for f in self.files if f.read]
        parts += [f"{m.name}={m.version}" for m in self.modules]
        return combine("recipe", parts)


FLAGS: dict[str, str] = {
    "stdin": "asked for input",
    "process": "started a process; its files in the folder and those it named were followed",
    "subprocess": "started a process that could not be followed",
    "network": "used the network",
    "external-write": "wrote a file outside the notebook's folder",
    "widgets": "opened a widget or another comm",
    "threads": "left threads or tasks running",
    "untracked": "did something that could not be followed",
    "clock": "read the clock or the system's entropy",
}
"""Flags of a record and what they mean."""

UNSAFE_FLAGS = frozenset({"stdin", "subprocess", "widgets", "threads", "untracked"})
"""Flags under which a cell is executed again unless its policy says `always`."""


class OutputMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One IOPub message of a run, without its header."""

    type: str
    """`stream`, `display_data`, `update_display_data`, `execute_result`, `clear_output`."""
    content: msgspec.Raw
    """The message's content as MessagePack."""
    metadata: msgspec.Raw = msgspec.Raw(b"\x80")
    buffers: tuple[bytes, ...] = ()
