"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""See `man 2 prctl`."""


def die_with(parent: int) -> None:
    """Be killed by the system when the parent process is gone (Linux; elsewhere nothing is done).

    Args:
        parent: its process id. If it is gone already, this process ends at once.
    """
    if sys.platform.startswith("linux"):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
