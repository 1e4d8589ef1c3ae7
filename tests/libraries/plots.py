"""Cases of figures: shown and closed at the end of their cell, as Jupyter's backend does."""

from __future__ import annotations

from tests.libraries.case import Case

PIXELS = """\
import hashlib, io
b = io.BytesIO(); x.savefig(b, format="rgba"); print(hashlib.md5(b.getvalue()).hexdigest())"""
"""Prints what a figure looks like."""

_SHOW = """\
import io
for number in plt.get_fignums(): plt.figure(number).savefig(io.BytesIO(), bbox_inches="tight")
plt.close("all")"""


def plot(name: str, create: str, read: str, modify: str) -> Case:
    """A case whose figures are shown and closed by the cell that makes them."""
    fills = "each drawing works out where labels stand" if read is PIXELS else ""
    return Case(name, f"{create}\n{_SHOW}", read, modify, fills=fills)
