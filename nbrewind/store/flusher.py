"""The flusher: a process that writes what its session has staged.

It outlives its session: what was staged when the kernel died is still committed. It is in a
session of its own, so that signals to the kernel's process group do not reach it, and ends
when everything is written and nobody can send any more.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys

import msgspec

from nbrewind.errors import NBRewindError
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.model.spans import TRACE_VARIABLE, Span, stopwatch
from nbrewind.store import durable, messages, refs
from nbrewind.store.arena import BLOCK_BYTES, SEGMENT_BLOCKS, Piece, Segment
from nbrewind.store.local import LocalStore, open_store
from nbrewind.store.messages import (
    Commit,
    Ended,
    GoneSegment,
    Hello,
    NewSegment,
)

log = logging.getLogger(__name__)

_NICENESS = 5
_MOST_SPANS = 1000
"""Told with one commit, so that the message stays small."""


class Flusher:
    """Serves one session.

    Args:
        store: The store to write to.
        connection: The session.
    """

    def __init__(self, store: LocalStore, connection: socket.socket) -> None:
        self._store = store
        self._connection = connection
        self._segments: dict[int, Segment] = {}

    def run(self) -> None:
        """Serve until the session is gone and all of its commits have ended."""
        self._tell(Hello(os.getpid()))
        self._store.lease.keep_beating()
        while True:
            try:
                received = messages.receive_request(self._connection)
            except OSError as problem:
                log.info("the session is gone: %s", problem)
                break
            if received is None:
                break
            request, fds = received
            if isinstance(request, NewSegment):
                self._forget(request.number)  # it may have been sent twice
                self._segments[request.number] = Segment(fds[0])
            elif isinstance(request, GoneSegment):
                self._forget(request.number)
            else:
                self._commit(request)
        self._store.close()

    def _forget(self, number: int) -> None:
        if number in self._segments:
            self._segments.pop(number).close()

    def _commit(self, request: Commit) -> None:
        def spans() -> tuple[Span, ...]:
            return tuple(stopwatch.take_spans()[:_MOST_SPANS])

        def fail(failure: Exception) -> None:
            epoch = self._store.pipeline.epoch
            self._tell(Ended(request.number, epoch, failure=str(failure), spans=spans()))

        def done(stored: StoredRef) -> None:
            epoch = self._store.pipeline.epoch
            self._tell(Ended(request.number, epoch, seq=stored.body.seq, spans=spans()))

        try:
            commit = messages.decode_commit(bytes(self._read(request.where)))
            if request.again and (found := self._published(commit.body)) is not None:
                done(found)
                return
            writer = self._store.begin_here()
            writer.add_staged(commit.objects, commit.relies_on, self._read)
            writer.commit_later(commit.body, fail, done, epoch=request.epoch)
        except (NBRewindError, OSError) as failure:
            self._store.pipeline.break_off()
            fail(failure)

    def _published(self, body: RefBody) -> StoredRef | None:
        """The ref of a commit that a flusher before this one published, durable now."""
        self._store.refresh()
        for stored in self._store.refs(body.source_digest):
            if msgspec.structs.replace(stored.body, seq=body.seq, objects=body.objects) == body:
                folder = os.path.join(self._store.location, "refs")
                durable.sync_directory(os.path.join(folder, refs.check_lineage(body.lineage)))
                return stored
        return None

    def _read(self, pieces: tuple[Piece, ...]) -> memoryview:
        views = []
        for block, at, length in pieces:
            segment, place = divmod(block, SEGMENT_BLOCKS)
            start = place * BLOCK_BYTES + at
            views.append(self._segments[segment].view[start : start + length])
        return views[0] if len(views) == 1 else memoryview(b"".join(views))

    def _tell(self, answer: messages.Answer) -> None:
        with contextlib.suppress(OSError):  # nobody is there to hear it
            self._connection.send(messages.encode(answer))


def main(root: str, descriptor: int) -> None:
    """The process: serve the session at the other end of a socket.

    Args:
        root: The store.
        descriptor: The socket.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends by itself, soon after its session
    stopwatch.keeping = bool(os.environ.get(TRACE_VARIABLE))
    os.nice(_NICENESS)  # while there is room, the notebook goes first
    with socket.socket(fileno=descriptor) as connection:
        Flusher(open_store(root), connection).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
