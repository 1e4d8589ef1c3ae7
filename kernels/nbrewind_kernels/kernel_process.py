"""The kernel a headless run starts: a process of its own, in the notebook's folder."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from jupyter_client.manager import AsyncKernelManager

from nbrewind.errors import KernelError
from nbrewind_kernels.cell_client import CellClient
from nbrewind_kernels.kernelspecs import FixedSpecs, RunMode, spec_in_memory

_LONGEST_SOCKET_FOLDER = 80
"""A Unix socket's path has about 100 bytes in all."""


class KernelProcess:
    """One kernel; needs no kernelspec installed and leaves nothing behind."""

    def __init__(self, mode: RunMode, scratch: Path) -> None:
        """Prepare a kernel.

        Args:
            mode: which kernel.
            scratch: an empty folder that outlives the kernel.
        """
        self.mode = mode
        self.manager = AsyncKernelManager(kernel_name=mode, kernel_spec_manager=FixedSpecs())
        self.manager.kernel_spec_manager.fixed = spec_in_memory(mode)
        self.manager.client_factory = CellClient
        self.manager.connection_file = str(scratch / "kernel.json")
        if os.name == "posix" and len(os.fsencode(scratch)) < _LONGEST_SOCKET_FOLDER:
            self.manager.transport = "ipc"  # unlike a port, nobody else can take it meanwhile
            self.manager.ip = str(scratch / "k")
        self.client: CellClient | None = None
        self._log = scratch / "kernel.log"

    async def start(self, folder: Path, env: Mapping[str, str], patience: float) -> CellClient:
        """Start the kernel in `folder` and wait until it answers.

        Args:
            folder: its working directory.
            env: its environment.
            patience: seconds to wait for its first answer.

        Raises:
            KernelError: with the kernel's own last words.
        """
        with self._log.open("wb") as words:
            try:
                await self.manager.start_kernel(
                    cwd=str(folder),
                    env=dict(env),
                    stdout=words,
                    stderr=words,
                    # Batch runs stay out of the user's interactive history.
                    extra_arguments=["--HistoryManager.hist_file=:memory:"],
                )
            except OSError as error:
                raise KernelError(f"the {self.mode} kernel cannot be started: {error}") from error
        client = self.manager.client()
        assert isinstance(client, CellClient)
        self.client = client
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=patience)
        except (RuntimeError, TimeoutError) as error:
            raise KernelError(
                f"the {self.mode} kernel did not start: {error}{self.last_words()}"
            ) from error
        client.allow_stdin = False  # nobody is there to answer
        return client

    async def interrupt(self) -> None:
        """Interrupt what it runs."""
        if self.manager.has_kernel:
            await self.manager.interrupt_kernel()

    async def kill(self) -> None:
        """Kill it; whoever waits for it notices within a second."""
        if self.manager.has_kernel:
            await self.manager.signal_kernel(signal.SIGKILL)

    async def how_it_ended(self) -> str:
        """How a dead kernel died, for people."""
        provisioner = self.manager.provisioner
        code = await provisioner.poll() if provisioner is not None else None
        if code is None or code >= 0:
            return "ended by itself"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was ended by {name}" + (" (often: out of memory)" if name == "SIGKILL" else "")

    async def shut_down(self, now: bool) -> None:
        """Stop it, politely unless `now`, and remove its sockets."""
        if self.manager.has_kernel:
            await self.manager.shutdown_kernel(now=now)
        if self.client is not None:
            self.client.stop_channels()
        await self.manager.cleanup_resources()

    def last_words(self) -> str:
        """The end of what it printed outside of cells, indented; empty if nothing."""
        if not self._log.exists():
            return ""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return "".join(f"\n    {line}" for line in text.strip().splitlines()[-15:])
