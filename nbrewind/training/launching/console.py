r"""What ranks print, in the cell: whole lines with their rank, and one line of progress.

A line is shown when it is complete, so that ranks do not break into each other's lines. A line
that is drawn again and again (`\r`, a progress bar) is shown at once, of the lowest rank that
has one, and drawn anew below lines that come in between.
"""

from __future__ import annotations

import codecs
from typing import TextIO


class Console:
    """One stream of all ranks.

    Args:
        stream: where to write.
        digits: how wide the number of a rank is.
    """

    def __init__(self, stream: TextIO, digits: int = 1) -> None:
        self._stream = stream
        self._digits = digits
        self._decoders: dict[int, codecs.IncrementalDecoder] = {}
        self._open: dict[int, str] = {}
        """What each rank has written of a line that is not complete."""
        self._bar = ""
        """The line of progress that is shown."""

    def feed(self, rank: int, data: bytes) -> None:
        """A rank wrote some bytes."""
        decoder = self._decoders.get(rank)
        if decoder is None:
            decoder = self._decoders[rank] = codecs.getincrementaldecoder("utf-8")("replace")
        *lines, rest = (self._open.pop(rank, "") + decoder.decode(data)).split("\n")
        if rest:
            self._open[rank] = _shortened(rest)
        self._write([self._prefixed(rank, _drawn(line)) for line in lines])

    def end(self, rank: int) -> None:
        """A rank writes no more: show what it left of a line."""
        decoder = self._decoders.pop(rank, None)
        rest = self._open.pop(rank, "") + (decoder.decode(b"", True) if decoder else "")
        self._write([self._prefixed(rank, _drawn(rest))] if rest else [])

    def _prefixed(self, rank: int, line: str) -> str:
        return f"[rank {rank:>{self._digits}}] {line}"

    def _write(self, lines: list[str]) -> None:
        moving = [rank for rank, line in self._open.items() if "\r" in line]
        bar = self._prefixed(min(moving), _drawn(self._open[min(moving)])) if moving else ""
        out = ""
        if self._bar and (lines or bar != self._bar):
            # Written over, and longer than what was there: not all front ends delete the rest.
            over = lines.pop(0) + "\n" if lines else ""
            first = over.rstrip("\n") or bar
            out = "\r" + first.ljust(len(self._bar)) + ("\n" if over else "")
            self._bar = bar if not over else ""
        out += "".join(f"{line}\n" for line in lines)
        if bar != self._bar:
            out += bar
        self._bar = bar
        if out:
            self._stream.write(out)
            self._stream.flush()


def _drawn(line: str) -> str:
    """What a terminal shows of a line that goes back to its start."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def _shortened(line: str) -> str:
    """A line that is not complete, without drawings that were drawn over."""
    if "\r" not in line:
        return line
    before, _, last = line.rpartition("\r")
    return f"\r{last}" if last else f"\r{_drawn(before)}\r"
