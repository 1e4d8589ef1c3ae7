"""Messages between the kernel and its ranks: a kind, a length, and so many bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from enum import IntEnum

import msgspec

_HEADER = struct.Struct(">BQ")
_PIECE = 1 << 20


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1
    """A rank has connected: `Hello`."""
    WORK = 2
    """Kernel to rank: what to run, pickled by value."""
    RESULT = 3
    """What the rank's code returned, pickled by value."""
    ERROR = 4
    """The rank's code raised: `Failure`."""
    SIGNAL = 5
    """Kernel to rank: a signal to take, `int`."""
    LOOK = 6
    """Kernel to rank: where are you?"""
    SEEN = 7
    """The answer to `LOOK`: `Position`."""
    OUTPUTS = 8
    """A rank asks for the outputs of the cell so far; the answer with them."""
    SHOW = 9
    """A rank has outputs to be shown in place of those so far."""


class Hello(msgspec.Struct, frozen=True):
    """The first message of each of a rank's connections."""

    token: str
    """Secret of the launch: nobody else may connect."""
    rank: int
    channel: str
    """`control`, `out` or `err`."""
    pid: int
    host: str


class Failure(msgspec.Struct, frozen=True):
    """How the code of a rank ended that did not return."""

    type: str
    """Name of the exception's class."""
    message: str
    traceback: str
    """As Python prints it, without frames of ours."""


class Position(msgspec.Struct, frozen=True):
    """Where a rank is."""

    progress: str
    """Differs whenever the rank got on."""
    waiting: bool
    """It is inside a call that waits for other ranks."""
    stack: str
    """The stack of its main thread, as Python prints it."""


def encode(kind: Kind, body: bytes | memoryview) -> list[memoryview]:
    """A message as the pieces to send."""
    return [memoryview(_HEADER.pack(kind, len(body))), memoryview(body)]


def send(connection: socket.socket, kind: Kind, body: bytes | memoryview) -> None:
    """Send one message and wait until it is on its way."""
    for piece in encode(kind, body):
        connection.sendall(piece)


def receive(connection: socket.socket) -> tuple[Kind, bytearray] | None:
    """Wait for one message; None if the other side has gone."""
    header = _exactly(connection, _HEADER.size)
    if header is None:
        return None
    kind, length = _HEADER.unpack(header)
    body = _exactly(connection, length)
    return None if body is None else (Kind(kind), body)


def _exactly(connection: socket.socket, length: int) -> bytearray | None:
    found = bytearray(length)
    rest = memoryview(found)
    while rest:
        try:
            count = connection.recv_into(rest[:_PIECE])
        except OSError:
            return None
        if not count:
            return None
        rest = rest[count:]
    return found


class Incoming:
    """Messages of one connection, put together from what arrives."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Kind, bytes]]:
        """Take what arrived; yields the messages that are complete with it."""
        self._data += data
        while len(self._data) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._data)
            end = _HEADER.size + length
            if len(self._data) < end:
                return
            body = bytes(memoryview(self._data)[_HEADER.size : end])
            del self._data[:end]
            yield Kind(kind), body

    def rest(self) -> bytes:
        """What came after the last complete message."""
        found = bytes(self._data)
        self._data.clear()
        return found
