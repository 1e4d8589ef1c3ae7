"""What ranks print is shown line by line with their rank, and one progress bar stays usable."""

from __future__ import annotations

import io
import random

import pytest

from nbrewind.training.launching.console import Console


def screen(text: str) -> list[str]:
    """Lines as a terminal shows them: `\\r` goes back and writes over."""
    lines = []
    for line in text.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def console() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(stream), stream


def test_lines_are_whole_and_have_their_rank() -> None:
    shown, stream = console()
    shown.feed(0, b"one ")
    shown.feed(1, b"two\nthr")
    shown.feed(0, b"more\n")
    shown.feed(1, "ee é\n".encode()[:4])
    shown.feed(1, "ee é\n".encode()[4:])
    assert stream.getvalue() == "[rank 1] two\n[rank 0] one more\n[rank 1] three é\n"


def test_a_line_without_an_end_is_shown_when_the_rank_ends() -> None:
    shown, stream = console()
    shown.feed(1, b"last words")
    shown.end(1)
    shown.end(0)
    assert stream.getvalue() == "[rank 1] last words\n"


def test_empty_lines_stay() -> None:
    shown, stream = console()
    shown.feed(0, b"a\n\nb\r\n")
    assert screen(stream.getvalue()) == ["[rank 0] a", "[rank 0]", "[rank 0] b", ""]


def test_a_bar_moves_in_place_and_stays_below_lines() -> None:
    shown, stream = console()
    shown.feed(0, b"\r 10%|#")
    assert screen(stream.getvalue()) == ["[rank 0]  10%|#"]
    shown.feed(1, b"a long message from another rank\n")
    assert screen(stream.getvalue()) == [
        "[rank 1] a long message from another rank",
        "[rank 0]  10%|#",
    ]
    shown.feed(1, b"ok\n")
    shown.feed(0, b"\r 20%|##")
    shown.feed(0, b"\r100%|##########")
    shown.feed(0, b"\n")
    assert screen(stream.getvalue()) == [
        "[rank 1] a long message from another rank",
        "[rank 1] ok",
        "[rank 0] 100%|##########",
        "",
    ]


def test_of_several_bars_the_lowest_rank_is_shown() -> None:
    shown, stream = console()
    shown.feed(1, b"\r 30%")
    shown.feed(0, b"\r 40%")
    shown.feed(1, b"\r 50%")
    assert screen(stream.getvalue()) == ["[rank 0]  40%"]
    shown.feed(0, b"\n")
    assert screen(stream.getvalue()) == ["[rank 0]  40%", "[rank 1]  50%"]
    shown.end(1)
    assert screen(stream.getvalue()) == ["[rank 0]  40%", "[rank 1]  50%", ""]


@pytest.mark.parametrize("seed", range(20))
def test_however_it_arrives_every_line_is_shown_once_in_the_order_of_its_rank(seed: int) -> None:
    dice = random.Random(seed)
    shown, stream = console()
    said = {
        rank: "".join(
            f"{rank}-{line}\n" if dice.random() < 0.6 else f"\r{rank}-{line} half\r{rank}-{line}\n"
            for line in range(20)
        ).encode()
        for rank in range(3)
    }
    while any(said.values()):
        rank = dice.choice([rank for rank, rest in said.items() if rest])
        count = dice.randint(1, 9)
        shown.feed(rank, said[rank][:count])
        said[rank] = said[rank][count:]
    for rank in range(3):
        shown.end(rank)
    lines = screen(stream.getvalue())
    for rank in range(3):
        own = [line for line in lines if line.startswith(f"[rank {rank}]")]
        assert own == [f"[rank {rank}] {rank}-{line}" for line in range(20)]
    assert len(lines) == 61


def test_what_a_bar_drew_over_is_not_kept() -> None:
    shown, _ = console()
    for percent in range(10_000):
        shown.feed(0, f"\r{percent:5}%|{'#' * 50}".encode())
    assert sum(map(len, shown._open.values())) < 200
