"""How an object's bytes are encoded in a pack: raw, or compressed where it pays.

Whether it pays is tried on a sample of each object, so that random floats and
images cost microseconds, not a compression. Numbers often compress only after
their bytes are regrouped by significance (the byte shuffle of Blosc and HDF5).
Codec numbers are part of the store format and never change their meaning.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import zstandard

from nbrewind.errors import ObjectDamaged

RAW = 0
ZSTD = 1
SHUFFLE4_ZSTD = 4
SHUFFLE8_ZSTD = 8
"""A shuffle codec's number is the width of its elements."""

CODECS = {
    RAW: "raw",
    ZSTD: "zstd",
    SHUFFLE4_ZSTD: "shuffle4-zstd",
    SHUFFLE8_ZSTD: "shuffle8-zstd",
}

LEVEL = 1
MIN_BYTES = 128
"""Smaller objects are stored raw."""

_SAMPLE = 4096
_GLANCE = 1024
"""Bytes of a neighbour that are sampled to see whether it is of another kind."""
_PLAIN_PAYS = 0.9
_SHUFFLE_PAYS = 0.86
"""Sampled ratio at which a codec is worth its time; random floats sample at 0.89 and more."""
_SHUFFLE_AHEAD = 0.95
"""How much smaller than the plain sample the shuffled one must be; it is as fast, or faster."""
_BARELY = 0.95
"""What shrinks no further is stored raw: whoever reads it saves the time."""

_local = threading.local()


def encode(data: memoryview) -> tuple[int, bytes | memoryview]:
    """Choose a codec for one object and apply it.

    Args:
        data: The content, as flat bytes.

    Returns:
        The codec's number, and the payload: `data` itself for `RAW`.
    """
    return encode_as(_choose(data), data)


def encode_neighbours(parts: Sequence[memoryview]) -> list[tuple[int, bytes | memoryview]]:
    """Encode neighbouring parts of one blob alike: the first one's sample speaks for all.

    Parts that are plainly of another kind (zeros after noise, noise after text) are not.
    """
    first = encode(parts[0])
    return [first, *(_encode_like(first[0], part) for part in parts[1:])]


def _encode_like(codec: int, data: memoryview) -> tuple[int, bytes | memoryview]:
    if codec == RAW:
        middle = data.nbytes // 2
        glance = bytes(data[middle : middle + _GLANCE])
        return encode(data) if len(glance) >= MIN_BYTES and _ratio(glance) < 0.5 else (RAW, data)
    chosen, payload = encode_as(codec, data)
    return (chosen, payload) if len(payload) < _BARELY * data.nbytes else (RAW, data)


def encode_as(codec: int, data: memoryview) -> tuple[int, bytes | memoryview]:
    """Encode one object by a given codec, or raw where that is no longer."""
    if codec == RAW or data.nbytes < MIN_BYTES:
        return RAW, data
    content: bytes | memoryview = data if codec == ZSTD else _shuffle(bytes(data), codec)
    payload = _compressor().compress(content)
    if len(payload) >= data.nbytes:
        return RAW, data
    return codec, payload


def decode(codec: int, payload: bytes | memoryview, size: int) -> bytes:
    """The content of an object from its payload.

    Args:
        codec: One of `CODECS`.
        payload: What `encode` returned.
        size: The content's length; nothing larger is ever allocated.

    Raises:
        ObjectDamaged: the payload cannot be decoded to exactly `size` bytes.
    """
    if codec == RAW:
        content = bytes(payload)
    elif codec in CODECS:
        content = _decompress(payload, size)
        if codec != ZSTD:
            content = _unshuffle(content, codec)
    else:
        raise ObjectDamaged(f"an object is encoded with codec {codec}, which does not exist")
    if len(content) != size:
        raise ObjectDamaged(f"an object has {len(content)} bytes instead of {size}")
    return content


def _choose(data: memoryview) -> int:
    size = data.nbytes
    if size < MIN_BYTES:
        return RAW
    middle = (size // 2) & ~7  # shuffled samples must start at an element
    sample = bytes(data if size <= _SAMPLE else data[middle : middle + _SAMPLE])
    ratio = _ratio(sample)
    if ratio > _PLAIN_PAYS and size > 2 * _SAMPLE:
        # A header of zeros or a constant tail pays even if the middle is noise.
        ratio = min(_ratio(bytes(data[:_SAMPLE])), _ratio(bytes(data[size - _SAMPLE :])))
        ratio = ratio if ratio < 0.5 else 1.0
    shuffled = {
        width: _ratio(_shuffle(sample, width))
        for width in (SHUFFLE8_ZSTD, SHUFFLE4_ZSTD)
        if size % width == 0 and size >= 1024
    }
    best = min(shuffled, key=shuffled.__getitem__, default=RAW)
    if best != RAW and shuffled[best] <= min(_SHUFFLE_PAYS, _SHUFFLE_AHEAD * ratio):
        return best
    return ZSTD if ratio <= _PLAIN_PAYS else RAW


def expected_ratio(data: memoryview) -> float:
    """About how much of some bytes is left when they are stored, from a sample; at most 1."""
    size = min(data.nbytes, _SAMPLE) & ~7
    if size < MIN_BYTES:
        return 1.0
    middle = ((data.nbytes - size) // 2) & ~7
    sample = bytes(data[middle : middle + size])
    return min(1.0, _ratio(sample), *(_ratio(_shuffle(sample, w)) for w in (4, 8)))


def _ratio(sample: bytes) -> float:
    return len(_compressor().compress(sample)) / len(sample)


def _shuffle(data: bytes, width: int) -> bytes:
    whole = len(data) - len(data) % width
    planes = [data[i:whole:width] for i in range(width)]
    return b"".join([*planes, data[whole:]])


def _unshuffle(data: Sequence[int] | bytes, width: int) -> bytes:
    count = len(data) // width
    out = bytearray(data)
    for i in range(width):
        out[i : count * width : width] = data[i * count : (i + 1) * count]
    return bytes(out)


def _decompress(payload: bytes | memoryview, size: int) -> bytes:
    try:
        if zstandard.frame_content_size(bytes(payload[:32])) != size:
            raise ObjectDamaged("a compressed object does not have the length its pack says")
        return _decompressor().decompress(payload)
    except (zstandard.ZstdError, MemoryError) as exc:
        raise ObjectDamaged(f"an object cannot be decompressed: {exc}") from exc


# Contexts are reused: making one costs more than a sample. They are not thread-safe.
def _compressor() -> zstandard.ZstdCompressor:
    found: zstandard.ZstdCompressor | None = getattr(_local, "compressor", None)
    if found is None:
        found = _local.compressor = zstandard.ZstdCompressor(level=LEVEL)
    return found


def _decompressor() -> zstandard.ZstdDecompressor:
    found: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if found is None:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found
