"""Small files with a digest at their end: a torn or damaged one is never taken for whole.

```
magic     8 bytes   7 that tell what it is, then the version
length    4 bytes   of the payload, little-endian
payload             MessagePack
digest   32 bytes   BLAKE3-256 of everything before
```
"""

from __future__ import annotations

import struct
from typing import TypeVar

import msgspec
from blake3 import blake3

from nbrewind.errors import ObjectDamaged

_LENGTH = struct.Struct("<I")
_DIGEST_BYTES = 32

_T = TypeVar("_T")


def seal(magic: bytes, value: msgspec.Struct) -> bytes:
    """The content of the file for a value."""
    payload = msgspec.msgpack.encode(value)
    content = magic + _LENGTH.pack(len(payload)) + payload
    return content + blake3(content).digest()


def unseal(magic: bytes, content: bytes, type: type[_T]) -> _T:
    """The value of a file.

    Raises:
        ObjectDamaged: it is another kind of file, of a newer version, torn or damaged.
    """
    if content[:7] != magic[:7]:
        raise ObjectDamaged("it does not begin as it should")
    if content[7:8] != magic[7:]:
        raise ObjectDamaged("it is of a newer format")
    start = len(magic) + _LENGTH.size
    end = start + int.from_bytes(content[len(magic) : start], "little")
    if len(content) != end + _DIGEST_BYTES:
        raise ObjectDamaged("it is torn")
    if blake3(content[:end]).digest() != content[end:]:
        raise ObjectDamaged("its content does not match its digest")
    try:
        return msgspec.msgpack.decode(content[start:end], type=type)
    except msgspec.MsgspecError as exc:
        raise ObjectDamaged(f"it cannot be decoded: {exc}") from exc
