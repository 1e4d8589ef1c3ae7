"""What a front end says about a cell besides its source."""

from __future__ import annotations

from typing import Any

from nbrewind_kernels.ports import CellRequest

POLICIES = ("never", "always", "auto")


def cell_request(source: str, cell_id: str | None, meta: Any) -> CellRequest:
    """The engine's request for a cell.

    Args:
        source: the cell's text.
        cell_id: a hint only: missing from nbclient, a document's URI from VS Code.
        meta: metadata of the execute request; JupyterLab puts the cell's there.
    """
    own = meta.get("nbrewind") if isinstance(meta, dict) else None
    own = own if isinstance(own, dict) else {}
    policy = own.get("cache")
    return CellRequest(
        source=source,
        cell_id=str(cell_id or ""),
        policy=policy if policy in POLICIES else "auto",
        force=own.get("force") is True,
    )
