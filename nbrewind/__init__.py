"""NBRewind: make a notebook cost only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Audit the cells of a plain kernel: `%load_ext nbrewind`."""
    from nbrewind_kernels.extension import load  # heavy: only on request

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Stop auditing: `%unload_ext nbrewind`."""
    from nbrewind_kernels.extension import unload

    unload(shell)
