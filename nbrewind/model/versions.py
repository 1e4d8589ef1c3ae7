"""Versions: the identity of a value as the names that reach it see it.

A version is a short string. Its first character tells its kind:

- `v<hex>`   content version: BLAKE3 of the value's canonical stream and buffers
- `l<hex>`   lineage version: the value cannot be stored; digest of how it was made
- `absent`   the name, file or module does not exist
- `present`  the name exists and only its existence matters (`del x`)
- `entropy`  a random number generator as the operating system seeded it
"""

from __future__ import annotations

from collections.abc import Iterable

from blake3 import blake3

Version = str

ABSENT: Version = "absent"
PRESENT: Version = "present"
ENTROPY: Version = "entropy"


def is_lineage(version: Version) -> bool:
    """Whether the value behind `version` can only be had by running its cell again."""
    return version.startswith("l")


def digest(*parts: bytes | str) -> str:
    """BLAKE3-256 of length-prefixed parts, in hex; unambiguous for any split."""
    hasher = blake3()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(len(raw).to_bytes(8, "little"))
        hasher.update(raw)
    return hasher.hexdigest()


def content_version(*parts: bytes | str) -> Version:
    """The version of a value that is given by its bytes."""
    return "v" + digest(*parts)[:48]


def lineage_version(recipe: str, name: str) -> Version:
    """The version of an unstorable value: what it was made from, and its name."""
    return "l" + digest("lineage", recipe, name)[:48]


def combine(tag: str, parts: Iterable[str]) -> str:
    """One digest over an ordered sequence of strings."""
    return digest(tag, *parts)[:48]
