"""Widgets that only show something: a reused cell can show them without running.

A progress bar is a handful of widgets that nobody operates. Their models live in the
front end, made by `comm_open` messages and changed by `comm_msg`; opened again with the
state they had in the end, they show what the run left there. Widgets that a user can
operate need their kernel side: cells that open those run every time.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

TARGET = "jupyter.widget"

_SHOWN_ONLY = frozenset(
    {"HTMLModel", "HTMLMathModel", "LabelModel", "FloatProgressModel", "IntProgressModel"}
    | {"HBoxModel", "VBoxModel", "BoxModel", "GridBoxModel", "ValidModel"}
    | {"LayoutModel", "ProgressStyleModel", "HTMLStyleModel", "HTMLMathStyleModel"}
    | {"LabelStyleModel", "DescriptionStyleModel"}
)
"""Models of `ipywidgets` that send nothing back."""


class ShownWidgets:
    """The widgets that one cell opened, with the state they have by now."""

    def __init__(self) -> None:
        self._opened: dict[str, dict[str, Any]] = {}

    def note(self, kind: str, content: dict[str, Any], buffers: Sequence[Any]) -> str | None:
        """Take note of a message of the cell's.

        Returns:
            The id of a widget that was opened, "" if nothing has to be done, and None if
            it takes a run to have the same again.
        """
        comm = content.get("comm_id", "")
        if buffers:
            return None
        if kind == "comm_open":
            state = (content.get("data") or {}).get("state") or {}
            if content.get("target_name") != TARGET or not _is_only_shown(state):
                return None
            self._opened[comm] = copy.deepcopy(content)
            return str(comm)
        opened = self._opened.get(comm)
        if opened is None:
            return None
        if kind == "comm_msg":
            data = content.get("data") or {}
            if data.get("method") not in ("update", "echo_update"):
                return None
            opened["data"]["state"].update(copy.deepcopy(data.get("state") or {}))
        return ""

    def content(self, comm: str) -> dict[str, Any]:
        """The content of the `comm_open` that brings a widget back."""
        return self._opened[comm]


def _is_only_shown(state: dict[str, Any]) -> bool:
    module = str(state.get("_model_module", ""))
    return module.startswith("@jupyter-widgets/") and state.get("_model_name") in _SHOWN_ONLY
