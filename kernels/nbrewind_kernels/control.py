"""What the headless driver asks a kernel on the control channel.

`nbrewind_request` carries `{"op": …}`; `nbrewind_reply` carries
`{"status": "ok", "report": …, "warnings": […]}` or
`{"status": "error", "ename": …, "evalue": …}`.

| op | meaning |
|---|---|
| `plan` | `cells`: all cells that will be requested, in order |
| `report` | the report of the last cell, once it is captured; null if it was not recorded |
| `close` | bring files up to date and end the session |
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from nbrewind_kernels.cells import Cells
from nbrewind_kernels.ports import CellRequest

_LONGEST_CAPTURE = 24 * 3600.0


async def answer(cells: Cells, content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the reply to one request."""
    try:
        operation = content.get("op")
        if operation == "plan":
            planned = [_planned(cell) for cell in content.get("cells", [])]
            await asyncio.to_thread(cells.plan, planned)
        elif operation == "report":
            await asyncio.to_thread(cells.wait_until_captured, _LONGEST_CAPTURE)
            return _reply(cells, msgspec.to_builtins(cells.last_report))
        elif operation == "close":
            await asyncio.to_thread(cells.close)
        else:
            return _error("ValueError", f"unknown operation {operation!r}")
    except Exception as error:
        cells.tell("answer the command line", error)
        return _error(type(error).__name__, str(error))
    return _reply(cells, None)


def _planned(cell: Mapping[str, Any]) -> CellRequest:
    return CellRequest(
        source=str(cell.get("source", "")),
        cell_id=str(cell.get("cell_id") or ""),
        policy=str(cell.get("policy") or "auto"),
        force=bool(cell.get("force")),
    )


def _reply(cells: Cells, report: Any) -> dict[str, Any]:
    return {"status": "ok", "report": report, "warnings": cells.warnings}


def _error(name: str, value: str) -> dict[str, Any]:
    return {"status": "error", "ename": name, "evalue": value}
