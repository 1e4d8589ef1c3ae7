"""Why a cell was executed: the closed list of reasons."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

ReasonKind = Literal[
    "never-run",
    "source-changed",
    "input-changed",
    "ambient-changed",
    "file-changed",
    "module-changed",
    "environment-changed",
    "session-effect",
    "sharing-changed",
    "not-stored",
    "previous-error",
    "unsafe",
    "untrusted",
    "forced",
]

REASON_KINDS: tuple[str, ...] = get_args(ReasonKind)


class Reason(msgspec.Struct, frozen=True):
    """One reason why a cell had to be executed."""

    kind: ReasonKind
    subject: str = ""
    """The name, file, module, … the reason is about; empty where the cell itself is meant."""
    detail: str = ""
    """A sentence for people."""

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}".rstrip()
