"""Start a kernel process."""

# mypy: allow-untyped-calls
# (IPython and ipykernel are annotated only in part)

from __future__ import annotations

import os
import time

from ipykernel.kernelapp import IPKernelApp
from ipykernel.parentpoller import ParentPollerUnix

from nbrewind_kernels.kernel import AuditKernel, ReplayKernel, RewindKernel

KERNELS: dict[str, type[RewindKernel]] = {"audit": AuditKernel, "replay": ReplayKernel}


class OrphanWatch(ParentPollerUnix):
    """Ends the process when its parent is gone, as ipykernel does, but in order."""

    def __init__(self, parent_pid: int, kernel: RewindKernel) -> None:
        super().__init__(parent_pid)
        self._kernel = kernel

    def run(self) -> None:
        """Poll the parent."""
        known = self.parent_pid if os.getppid() == self.parent_pid else 0
        while True:
            parent = os.getppid()
            if (known and parent != known) or (not known and parent == 1):
                self._kernel.cells.close(patience=5.0)
                os._exit(1)
            time.sleep(1.0)


def main(mode: str, kernel_class: type[RewindKernel] | None = None) -> None:
    """Run a kernel until it is shut down.

    Args:
        mode: `audit` or `replay`.
        kernel_class: another kernel than the mode's own.
    """
    app = IPKernelApp.instance(kernel_class=kernel_class or KERNELS[mode])
    app.initialize()
    if isinstance(app.poller, ParentPollerUnix):
        app.poller = OrphanWatch(app.poller.parent_pid, app.kernel)
    app.start()
