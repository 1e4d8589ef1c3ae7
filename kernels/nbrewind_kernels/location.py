"""Where a kernel's notebook and its store are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from nbrewind.store import places

STORE = ".nbrewind"
UNNAMED = "unnamed"


@dataclass(frozen=True)
class Location:
    """Folder, notebook and store of a session."""

    root: Path
    """The notebook's folder."""
    notebook: str
    """The notebook's file name; records refer to it by that, so folders can be moved."""
    store: str
    """Its place: a directory, a bucket, or several of them, fastest first."""
    env_policy: Literal["rerun", "accept"] = "rerun"
    """What a changed package means for the cells that used it."""

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Location:
        """Read it from the environment that a front end gives its kernels.

        `NBREWIND_NOTEBOOK` and `NBREWIND_STORE` are set by the command line.
        Jupyter servers tell the notebook's path in `JPY_SESSION_NAME`. Kernels
        start in the notebook's folder.
        """
        root, here = Path.cwd(), Path.cwd()
        named = environ.get("NBREWIND_NOTEBOOK", "")
        if named:
            path = here / named
            root, notebook = path.parent, path.name
        else:
            notebook = Path(environ.get("JPY_SESSION_NAME", "")).name or UNNAMED
        store = environ.get("NBREWIND_STORE", "")
        return cls(root, notebook, places.absolute(store, here) if store else str(root / STORE))

    def with_defaults(
        self, store: str, env_policy: str, environ: Mapping[str, str] = os.environ
    ) -> Location:
        """What the environment leaves open, from the kernel's configuration."""
        place = self.store
        if store and not environ.get("NBREWIND_STORE"):
            place = places.absolute(store, self.root)
        policy = environ.get("NBREWIND_ENV_POLICY") or env_policy
        if policy not in ("rerun", "accept"):
            policy = "rerun"
        return replace(self, store=place, env_policy=cast('Literal["rerun", "accept"]', policy))
