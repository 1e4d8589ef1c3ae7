"""The promoter: a process that keeps the slower tiers of a session up with the first.

It is started with the session and outlives it: when the session is gone it copies what is
still missing and ends. It holds nothing that cannot be found again, so that nothing is lost
when it is killed: the next one finds what is missing from the stores themselves.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from nbrewind.errors import NBRewindError, StoreFormatError
from nbrewind.store import config
from nbrewind.store.catalog import PACK_SUFFIX
from nbrewind.store.listing import Listing
from nbrewind.store.places import is_bucket, is_missing_directory
from nbrewind.store.refs import SUFFIX
from nbrewind.store.remote.files import Files
from nbrewind.store.remote.retrying import Patience
from nbrewind.store.tiers.chain import guarded, open_files
from nbrewind.store.tiers.guard import Guard
from nbrewind.store.tiers.promotion import Promoted, Promotion

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""Between two looks at the first tier."""
_JITTER_SECONDS = 10.0
"""Tasks of an array that start together begin to copy within this time."""
_LAST_TRIES = 8
"""Failures in a row after which a promoter without a session gives up."""
_ARRAY = ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "LSB_JOBINDEX", "SGE_TASK_ID")
_PROGRAM = """
import os, sys
if os.fork(): os._exit(0)
import json
sys.path[:0] = json.loads(sys.argv[2])
from nbrewind.store.tiers.promoter import main
main(json.loads(sys.argv[1]))
"""

_random = random.SystemRandom()


class Step:
    """Copies from one tier of a chain to the next."""

    def __init__(self, source: str, target: str, patience: Patience | None = None) -> None:
        self.source, self.target = source, target
        self._patience = patience
        self._promotion: Promotion | None = None
        self._guard = Guard()

    def run(self) -> Promoted:
        """Copy what is missing now; makes the target a store if it is none.

        Raises:
            NBRewindError: one of the two stores cannot be opened.
            OSError: one cannot be read or written.
        """
        if self._promotion is None:
            self._promotion = self._prepared()
        return self._promotion.run()

    def missing_refs(self) -> int:
        """How many records the target lacks; raises as `run`."""
        if self._promotion is None:
            self._promotion = self._prepared()
        return len(self._promotion.missing()[0])

    def _prepared(self) -> Promotion:
        guard = guarded(self.target)
        source, target = open_files(self.source), open_files(self.target)
        have, need = _format_of(target), _format_of(source)
        if have < need:
            guard.close()
            raise StoreFormatError(
                f"{self.target} is a store of format {have} and {self.source} of format {need}: "
                "nothing is copied to it; start a new store there"
            )
        self._guard = guard
        return Promotion(source, target, self._patience, guard)

    def close(self) -> None:
        """Release what is held."""
        if self._promotion is not None:
            self._promotion.source.close()
            self._promotion.target.close()
            self._guard.close()
            self._promotion = None


def _format_of(files: Files) -> int:
    return config.parse(files.read(config.CONFIG), files.location).format


def steps_of(places: Sequence[str], patience: Patience | None = None) -> list[Step]:
    """The steps of a chain, fastest first."""
    return [Step(a, b, patience) for a, b in pairwise(places)]


class Promoter:
    """Runs steps again and again.

    Args:
        steps: In the order of the chain.
        patience: The pauses after failures.
    """

    def __init__(self, steps: Sequence[Step], patience: Patience | None = None) -> None:
        self._steps = steps
        self._patience = patience or Patience(first=2.0, longest=300.0)
        self._failures = dict.fromkeys(steps, 0)
        self._not_before = dict.fromkeys(steps, 0.0)

    @property
    def failures(self) -> int:
        """The most failures in a row of any step."""
        return max(self._failures.values(), default=0)

    def run(self, now: float) -> bool:
        """Run every step whose pause is over; returns whether all is copied."""
        done = True
        for step in self._steps:
            if now < self._not_before[step]:
                done = False
                continue
            try:
                copied = step.run()
            except (NBRewindError, OSError) as problem:
                done = False
                if not self._failures[step]:
                    _log.warning("copies to %s wait: %s", step.target, problem)
                self._failures[step] += 1
                self._not_before[step] = now + self._patience.pause(self._failures[step])
                continue
            if self._failures[step]:
                _log.warning("copies to %s go on", step.target)
            self._failures[step] = 0
            if copied.refs:
                _log.info("%d records are in %s now", copied.refs, step.target)
        return done


def start(places: Sequence[str]) -> Callable[[], None]:
    """Start a promoter; returns what tells it that this session needs it no longer.

    Raises:
        OSError: it cannot be started.
    """
    paths = [path for path in sys.path if path and os.path.isabs(path)]
    reading, writing = os.pipe()
    try:
        with subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, json.dumps(list(places)), json.dumps(paths)],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        ) as process:
            process.wait()
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    owner = os.getpid()

    def stop() -> None:
        nonlocal owner
        if owner == os.getpid():
            owner = 0
            os.close(writing)

    return stop


def first_pause() -> float:
    """Seconds before the first copy: drawn, so that tasks of an array do not start at once."""
    most = _JITTER_SECONDS if any(name in os.environ for name in _ARRAY) else 0.2
    return _random.uniform(0, most)


def main(places: Sequence[str]) -> None:
    """The process: copy while standard input is open, and what is left after that."""
    with contextlib.suppress(OSError):
        os.nice(10)
    promoter = Promoter(steps_of(places))
    watched = (
        []
        if is_bucket(places[0])
        else [
            Listing(os.path.join(places[0], "packs"), PACK_SUFFIX),
            Listing(os.path.join(places[0], "refs"), SUFFIX),
        ]
    )
    ended = _session_ended(first_pause())
    behind = True
    while not ended:
        changed = any([listing.scan()[0] for listing in watched]) or not watched
        if changed or behind:
            behind = not promoter.run(time.monotonic())
        ended = _session_ended(_LOOK_SECONDS)
    while not promoter.run(time.monotonic()) and promoter.failures < _LAST_TRIES:
        if is_missing_directory(places[0]):
            return  # the job's own disk was emptied: there is nothing left to copy
        time.sleep(_LOOK_SECONDS)


def _session_ended(seconds: float) -> bool:
    """Wait at most so long for the session's end."""
    ready, _, _ = select.select([0], [], [], seconds)
    return bool(ready) and not os.read(0, 1)
