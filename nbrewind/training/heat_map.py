"""Where time went in a save, as a picture: a row for each rank, a column for each phase."""

from __future__ import annotations

from html import escape

from nbrewind.training.describing import Inspection

_CELL_WIDTH, _CELL_HEIGHT, _LEFT, _TOP = 96, 22, 60, 46


def draw(found: Inspection) -> str:
    """An SVG picture; the darker a cell, the longer the phase took on that rank."""
    phases = list(dict.fromkeys(phase for rank in found.ranks for phase in rank.seconds))
    longest = max((s for rank in found.ranks for s in rank.seconds.values()), default=0.0)
    width = _LEFT + _CELL_WIDTH * max(1, len(phases)) + 10
    height = _TOP + _CELL_HEIGHT * len(found.ranks) + 10
    one = found.checkpoint
    title = escape(f"{one.run}@{one.step}: seconds by rank and phase")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="16" font-size="13">{title}</text>',
    ]
    for column, phase in enumerate(phases):
        x = _LEFT + _CELL_WIDTH * column + _CELL_WIDTH // 2
        parts.append(f'<text x="{x}" y="{_TOP - 8}" text-anchor="middle">{escape(phase)}</text>')
    for row, rank in enumerate(found.ranks):
        y = _TOP + _CELL_HEIGHT * row
        parts.append(f'<text x="8" y="{y + 15}">rank {rank.rank}</text>')
        for column, phase in enumerate(phases):
            taken = rank.seconds.get(phase, 0.0)
            share = taken / longest if longest else 0.0
            shade = round(255 - 200 * share)
            ink = "white" if share > 0.6 else "black"
            x = _LEFT + _CELL_WIDTH * column
            parts.append(
                f'<rect x="{x}" y="{y}" width="{_CELL_WIDTH - 2}" height="{_CELL_HEIGHT - 2}" '
                f'fill="rgb({shade},{shade},255)"/>'
                f'<text x="{x + _CELL_WIDTH // 2}" y="{y + 15}" text-anchor="middle" '
                f'fill="{ink}">{taken:.3g}</text>'
            )
    return "\n".join([*parts, "</svg>\n"])
