"""Ref files: a signed statement that an execution record exists.

```
magic      8 bytes    "NBRWREF", then the version 1
length     4 bytes    of the payload, little-endian
payload    MessagePack array [body, key, signature]; body is a `RefBody` as bytes
digest     32 bytes   BLAKE3-256 of everything before
```

The digest tells a torn file from a forged one; only the signature is evidence.
"""

from __future__ import annotations

import re
import struct

import msgspec
from blake3 import blake3

from nbrewind.errors import ObjectDamaged
from nbrewind.model.refs import REF_FORMAT, RefBody
from nbrewind.store import trust

MAGIC = b"NBRWREF\x01"
SUFFIX = ".ref"

_LENGTH = struct.Struct("<I")
_DIGEST_BYTES = 32
_LINEAGE = re.compile(r"[0-9A-Za-z-]{1,64}")
_NAME = re.compile(r"([0-9]{10})\.ref")


Place = tuple[str, int]
"""Lineage and number."""


class SignedRef(msgspec.Struct, frozen=True, array_like=True):
    """The payload of a ref file."""

    body: bytes
    """A `RefBody` in MessagePack, exactly as signed."""
    key: bytes
    signature: bytes


_encoder = msgspec.msgpack.Encoder()
_signed = msgspec.msgpack.Decoder(SignedRef)
_body = msgspec.msgpack.Decoder(RefBody)


def check_lineage(lineage: str) -> str:
    """A lineage's name, if it can be a directory's.

    Raises:
        ValueError: it cannot.
    """
    if not _LINEAGE.fullmatch(lineage):
        raise ValueError(f"{lineage!r} is not the name of a lineage: a hex uuid is meant")
    return lineage


def file_name(seq: int) -> str:
    """The name of a ref's file within its lineage."""
    return f"{seq:010d}{SUFFIX}"


def sequence(name: str) -> int | None:
    """The number in a ref's file name; None if it is none."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode(body: RefBody) -> tuple[bytes, SignedRef]:
    """Sign a ref with this user's key; returns the file's content and its payload.

    Raises:
        TrustError: there is no key and none can be made.
    """
    raw = _encoder.encode(body)
    signed = SignedRef(raw, *trust.sign(raw))
    return pack(signed), signed


def pack(signed: SignedRef) -> bytes:
    """The content of a ref's file."""
    payload = _encoder.encode(signed)
    content = MAGIC + _LENGTH.pack(len(payload)) + payload
    return content + blake3(content).digest()


def decode(content: bytes, lineage: str, seq: int) -> tuple[RefBody, SignedRef]:
    """Read a ref file found as number `seq` of `lineage`; the signature is not verified.

    Raises:
        ObjectDamaged: it is torn, damaged, of another place or of a newer format.
    """
    if content[:7] != MAGIC[:7]:
        raise ObjectDamaged("it does not begin like a ref")
    if content[7:8] != MAGIC[7:]:
        raise ObjectDamaged("it is of a newer format")
    start = len(MAGIC) + _LENGTH.size
    end = start + int.from_bytes(content[len(MAGIC) : start], "little")
    if len(content) != end + _DIGEST_BYTES:
        raise ObjectDamaged("it is torn")
    if blake3(content[:end]).digest() != content[end:]:
        raise ObjectDamaged("its content does not match its digest")
    try:
        signed = _signed.decode(content[start:end])
        body = _body.decode(signed.body)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise ObjectDamaged(f"it cannot be decoded: {exc}") from exc
    if body.format > REF_FORMAT:
        raise ObjectDamaged("it is of a newer format")
    if (body.lineage, body.seq) != (lineage, seq):
        raise ObjectDamaged("it was made for another place")
    return body, signed
