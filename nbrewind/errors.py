"""The errors NBRewind raises, as one tree.

```
NBRewindError
├── UsageError               the request cannot be understood (exit code 2)
├── NotebookError            the notebook file is missing, damaged or not a notebook
├── KernelError              no such kernel, or it died
├── StoreError
│   ├── StoreFormatError     written by a newer NBRewind, or not a store
│   ├── StoreNotWritable     nothing can be recorded; the notebook still runs
│   ├── StoreUnreachable     the store does not answer at present
│   ├── ObjectMissing        an object is not in the store
│   │   └── ObjectUnreachable  it may be, but cannot be read at present
│   ├── ObjectDamaged        an object's bytes do not match its id
│   └── NotCollected         garbage is not collected while something is missing or damaged
├── CheckpointError          training state cannot be saved, or not be restored as asked
├── RuleError                a mapping rule cannot be read, or does not fit the tensors
├── LaunchError              ranks could not be started
│   └── RankFailed           the code of a rank raised, or its process ended or hangs
├── TrustError               written under a key that is not trusted here
└── StateError
    ├── NotStorable          the value cannot be captured
    └── NotRestorable        the stored value cannot be loaded here
```

Every error has a stable `kind` for programs and a message that says what
happened, to what, and what to do next.
"""

from __future__ import annotations


class NBRewindError(Exception):
    """Base of all errors of this package."""

    kind = "error"


class UsageError(NBRewindError):
    """The request cannot be understood."""

    kind = "usage"


class NotebookError(NBRewindError):
    """The notebook file is missing, damaged or not a notebook."""

    kind = "notebook"


class KernelError(NBRewindError):
    """The kernel could not be started, or died."""

    kind = "kernel"


class StoreError(NBRewindError):
    """Something is wrong with a store."""

    kind = "store"


class StoreFormatError(StoreError):
    """The directory is not a store, or one of a format this version does not know."""

    kind = "store-format"


class StoreNotWritable(StoreError):
    """The store cannot be written; what was stored stays readable."""

    kind = "store-not-writable"


class ObjectMissing(StoreError):
    """An object is not in the store."""

    kind = "object-missing"


class StoreUnreachable(StoreError):
    """The store does not answer at present, or access to it is refused."""

    kind = "store-unreachable"


class ObjectUnreachable(ObjectMissing):
    """An object cannot be read at present; for whoever needs it now it is missing."""

    kind = "object-unreachable"


class ObjectDamaged(StoreError):
    """An object's bytes do not match its id."""

    kind = "object-damaged"


class NotCollected(StoreError):
    """Garbage was not collected: something is missing or damaged. Nothing was changed."""

    kind = "not-collected"


class CheckpointError(NBRewindError):
    """Training state cannot be saved, or not be restored as it was asked for."""

    kind = "checkpoint"


class RuleError(NBRewindError):
    """A mapping rule cannot be read, or does not fit the tensors it is for."""

    kind = "mapping-rule"


class LaunchError(NBRewindError):
    """Ranks could not be started, or not be given what they need."""

    kind = "launch"


class RankFailed(LaunchError):
    """The code of a rank raised, or its process ended or hangs; the message names the rank."""

    kind = "rank-failed"


class TrustError(NBRewindError):
    """Data was written under a key that is not trusted here."""

    kind = "untrusted"


class StateError(NBRewindError):
    """A value could not be captured or restored."""

    kind = "state"


class NotStorable(StateError):
    """The value cannot be captured; its cell will be executed again when needed."""

    kind = "not-storable"


class NotRestorable(StateError):
    """The stored value cannot be loaded here; its cell will be executed again."""

    kind = "not-restorable"
