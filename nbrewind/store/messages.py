"""What a session and its flusher say to each other, over a socket that keeps messages apart.

The two are of one version, started by one another: nothing of this is ever stored.
"""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import RefBody
from nbrewind.model.spans import Span
from nbrewind.store.arena import Piece

MOST_BYTES = 128 * 1024
"""Of one message: below what sockets take at once. Longer things lie in the arena."""


class Staged(msgspec.Struct, frozen=True, array_like=True):
    """An object in the arena."""

    kind: int
    oid: ObjectId
    pieces: tuple[Piece, ...]


class StagedCommit(msgspec.Struct, frozen=True, array_like=True):
    """A commit whose objects are in the arena; lies there itself."""

    body: RefBody
    relies_on: tuple[ObjectId, ...]
    """Packs with objects that the commit did not have to add."""
    objects: tuple[Staged, ...]


class NewSegment(msgspec.Struct, frozen=True, tag="segment"):
    """A segment of the arena; its descriptor comes with the message."""

    number: int


class GoneSegment(msgspec.Struct, frozen=True, tag="gone"):
    """A segment that is not used any more."""

    number: int


class Commit(msgspec.Struct, frozen=True, tag="commit"):
    """Make a commit durable and visible, after all those before it."""

    number: int
    epoch: int
    """How many failures the session knew when it began the commit."""
    where: tuple[Piece, ...]
    """Where the `StagedCommit` is."""
    again: bool = False
    """A flusher that is gone now may have done it."""


Request = NewSegment | GoneSegment | Commit


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The flusher is at work."""

    pid: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A commit has ended."""

    number: int
    epoch: int
    """How many failures there were so far."""
    seq: int = -1
    """The number that its ref was published under; negative if it failed."""
    failure: str = ""
    spans: tuple[Span, ...] = ()
    """What the flusher did since the last answer, if the session keeps a trace."""


Answer = Hello | Ended

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_answers = msgspec.msgpack.Decoder(Answer)
_commits = msgspec.msgpack.Decoder(StagedCommit)


def encode(message: Any) -> bytes:
    """A message, or a `StagedCommit`, as bytes."""
    return _encoder.encode(message)


def decode_commit(data: bytes) -> StagedCommit:
    """The reverse of `encode`."""
    return _commits.decode(data)


def receive_request(connection: socket.socket) -> tuple[Request, list[int]] | None:
    """The next message to a flusher and descriptors sent with it; None if there is no sender."""
    try:
        data, fds, _, _ = socket.recv_fds(connection, MOST_BYTES, 1)
    except ConnectionResetError:
        # The session died with answers unread. That is told once, before what it had sent.
        data, fds, _, _ = socket.recv_fds(connection, MOST_BYTES, 1)
    return (_requests.decode(data), fds) if data else None


def receive_answer(connection: socket.socket) -> Answer | None:
    """The next message to a session; None if its flusher is gone."""
    try:
        data = connection.recv(MOST_BYTES)
    except OSError:
        return None
    return _answers.decode(data) if data else None
