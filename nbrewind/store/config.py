"""What makes a directory a store: its layout, and the `CONFIG` that never changes.

`CONFIG` holds nothing of its creator, so that processes which create a store at the
same time write the same bytes and both succeed.
"""

from __future__ import annotations

import json
import os
import uuid
from typing import Any

import msgspec

from nbrewind.errors import StoreFormatError
from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.store.codec import CODECS
from nbrewind.store.cutting import CutRule
from nbrewind.store.durable import (
    again_if_stale,
    discard,
    exists,
    make_directory,
    sync_directory,
    write_small,
    writing,
)

STORE_FORMAT = 2
"""Of new stores; those of earlier formats are read, and written as they were begun."""
PACK_BYTES = 32 * 1024 * 1024
"""Size from which a commit starts another pack."""

CONFIG = "CONFIG"
DIRECTORIES = ("packs", "idx", "refs", "tmp", "quarantine")
_LATER = ("sessions", "epochs", "pins", "lost", "trash")
"""Directories that are made when they are needed."""

STREAM_CUTS = CutRule(
    least=16 * 1024, usual=64 * 1024, most=LEAF_BYTES, strict_bits=18, loose_bits=14
)

_FIXED = {"method": "fixed", "bytes": LEAF_BYTES}
_PARAMETERS: dict[str, Any] = {
    "hash": "blake3-256",
    "leaf_bytes": LEAF_BYTES,
    "codecs": {str(number): name for number, name in CODECS.items()},
}
_CHUNKING: dict[int, dict[str, Any]] = {
    1: {"chunking": _FIXED},
    2: {
        "buffers": _FIXED,
        "streams": {"method": "fastcdc-xor32", **msgspec.to_builtins(STREAM_CUTS)},
    },
}

_CACHEDIR_TAG = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# An NBRewind store: records and checkpoints of notebooks. It can be recomputed\n"
    b"# from the notebooks, at the price of running them. See https://bford.info/cachedir/\n"
)
_FILES = {".gitignore": b"*\n", "CACHEDIR.TAG": _CACHEDIR_TAG}
_UNFINISHED = CONFIG + ".tmp-"


def create(root: str) -> None:
    """Make the directory `root` a store, or complete one; creates parents as needed.

    Raises:
        StoreFormatError: it is a directory with something else in it.
        StoreNotWritable: it cannot be created.
    """
    with writing(root):
        os.makedirs(root, exist_ok=True)
        # A file that merely cannot be seen is not replaced: it may be of another format.
        if not exists(os.path.join(root, CONFIG)):
            _refuse_foreign(root)
            _write_once(root, CONFIG, initial())
            sync_directory(os.path.dirname(os.path.abspath(root)))
        for name in DIRECTORIES:
            make_directory(os.path.join(root, name))
        for name, text in _FILES.items():
            if not exists(os.path.join(root, name)):
                _write_once(root, name, text)


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What an opened store needs to know of its `CONFIG`."""

    format: int
    stream_cuts: CutRule | None
    """None: streams are cut at fixed distances, like buffers."""


def check(root: str) -> Parameters:
    """Make sure that `root` is a store this version can read; returns how it is written.

    Raises:
        StoreFormatError: it is not, with what to do.
    """
    path = os.path.join(root, CONFIG)
    try:
        return parse(again_if_stale(lambda: _content(path)), root)
    except FileNotFoundError:
        raise StoreFormatError(
            f"{root} is not an NBRewind store: it has no {CONFIG}; give the path of a store "
            "(usually `.nbrewind` next to the notebook)"
        ) from None
    except OSError as exc:
        raise StoreFormatError(f"{path} cannot be read: {exc.strerror}") from exc


def initial() -> bytes:
    """The `CONFIG` of a new store."""
    return json.dumps(_parameters(STORE_FORMAT), indent=2).encode() + b"\n"


def parse(content: bytes, root: str) -> Parameters:
    """What a `CONFIG` says.

    Args:
        content: Of the file.
        root: The store, for messages.

    Raises:
        StoreFormatError: this version cannot read such a store, with what to do.
    """
    path = f"{root.rstrip('/')}/{CONFIG}"
    try:
        found = json.loads(content)
        number = found["format"]
    except (ValueError, KeyError, TypeError) as exc:
        raise StoreFormatError(
            f"{path} is damaged; `nbrewind store check --repair` writes it anew"
        ) from exc
    if not isinstance(number, int) or number > STORE_FORMAT:
        raise StoreFormatError(
            f"{root} is a store of format {number}, written by a newer NBRewind; this one knows "
            f"format {STORE_FORMAT}: upgrade with `pip install -U nbrewind`"
        )
    expected = _parameters(number) if number in _CHUNKING else {"format": None}
    wrong = [key for key, value in expected.items() if found.get(key) != value]
    if wrong:
        raise StoreFormatError(
            f"{path} has parameters this version does not know ({', '.join(wrong)}): "
            "upgrade NBRewind, or rename the store to start a new one"
        )
    return Parameters(format=number, stream_cuts=STREAM_CUTS if "streams" in found else None)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def raise_format(root: str) -> None:
    """Make a store one of the newest format: versions that do not know it write no more to it.

    Needed before anything is removed: writers of format 1 know of no leases. What was written
    stays as it is; streams that follow are cut as the new format says.

    Raises:
        StoreFormatError: as `check`.
        OSError: it cannot be written.
    """
    if check(root).format < STORE_FORMAT:
        _write_once(root, CONFIG, json.dumps(_parameters(STORE_FORMAT), indent=2).encode() + b"\n")


def restore(root: str) -> str:
    """Write a damaged `CONFIG` anew; returns where the old one is now, or "" if it was right.

    It says the same in every store of a format, so nothing is lost with it. One that may be of
    a newer version is not touched.

    Raises:
        StoreFormatError: it is not damaged, and not one that this version can read.
        StoreNotWritable: it cannot be written.
    """
    path = os.path.join(root, CONFIG)
    try:
        check(root)
    except StoreFormatError:
        if not all(os.path.exists(os.path.join(root, name)) for name in (CONFIG, "packs", "refs")):
            raise
        with writing(root):
            content = again_if_stale(lambda: _content(path))
            if not _is_damaged(content):
                raise
            aside = os.path.join(root, "quarantine", f"{uuid.uuid4().hex[:8]}-{CONFIG}")
            make_directory(os.path.dirname(aside))
            write_small(aside, content)
            _write_once(root, CONFIG, initial())
        return aside
    return ""


def _is_damaged(content: bytes) -> bool:
    """Whether no version wrote this: it is no JSON, or not what its format says."""
    try:
        number = json.loads(content)["format"]
    except (ValueError, KeyError, TypeError):
        return True
    return not isinstance(number, int) or number in _CHUNKING


def _parameters(number: int) -> dict[str, Any]:
    """What `CONFIG` says in a store of a format."""
    return {"format": number, **_PARAMETERS, **_CHUNKING[number]}


def _refuse_foreign(root: str) -> None:
    ours = {CONFIG, *DIRECTORIES, *_LATER, *_FILES}
    foreign = sorted(
        n for n in os.listdir(root) if n not in ours and not n.startswith((_UNFINISHED, ".nfs"))
    )
    foreign = [n for n in foreign if not any(n.startswith(f"{f}.tmp-") for f in _FILES)]
    if foreign:
        raise StoreFormatError(
            f"{root} is not an NBRewind store and not empty (it has {foreign[0]!r}): "
            "give another path"
        )


def _write_once(root: str, name: str, content: bytes) -> None:
    temporary = os.path.join(root, f"{name}.tmp-{uuid.uuid4().hex}")
    try:
        write_small(temporary, content)
        os.rename(temporary, os.path.join(root, name))
    except OSError:
        discard(temporary)
        raise
    sync_directory(root)
