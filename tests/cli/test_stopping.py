"""Ctrl-C and the signals of batch systems: the first interrupts, the second kills."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest

DRIVER = """
import signal, sys
from pathlib import Path
from nbrewind_kernels.driver import RunRequest, run_notebook
signal.signal(signal.SIGINT, signal.default_int_handler)
result = run_notebook(RunRequest(Path(sys.argv[1]), "plain"))
print(result.failure)
print([cell.action for cell in result.report.cells])
sys.exit(result.exit_code)
"""


@contextmanager
def running(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own, at the point where a cell has written to the pipe."""
    pipe = path.parent / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        ready, _, _ = select.select([reader], [], [], 120)
        os.close(reader)
        assert ready, "the cell never began"
        yield process
    finally:
        process.kill()
        process.wait()


SLOW = (
    "import time\nprint('slow begins', flush=True)\n"
    # Closed in so many words: what a signal raises while a forgotten file is closed is lost.
    "with open('pipe', 'w') as pipe:\n    pipe.write('x')\n"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_the_cell_and_what_is_complete_is_saved(
    write, number: signal.Signals
) -> None:
    path = write("print('done')", SLOW + "time.sleep(600)", "3")
    with running(path) as process:
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "['executed', 'failed', 'not-run']" in said
    assert "interrupted in code cell 1" in said
    saved = nbformat.read(path, 4)
    assert saved.cells[0].outputs[0].text == "done\n"
    assert saved.cells[1].outputs[0].text == "slow begins\n"
    assert saved.cells[1].outputs[-1].ename == "KeyboardInterrupt"
    assert saved.cells[2].outputs == []


def test_a_second_signal_kills_a_cell_that_does_not_listen(write) -> None:
    deaf = (
        SLOW + "while True:\n"
        "    try:\n        time.sleep(600)\n"
        "    except KeyboardInterrupt:\n        with open('pipe', 'w') as pipe:\n"
        "            pipe.write('deaf')\n"
    )
    path = write("print('done')", deaf, "3")
    with running(path) as process:
        process.send_signal(signal.SIGINT)
        with open(path.parent / "pipe") as pipe:
            assert pipe.read() == "deaf"
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "killed on request in code cell 1" in said
    assert nbformat.read(path, 4).cells[0].outputs[0].text == "done\n"


def test_a_cell_that_handles_the_interruption_counts_and_the_run_still_ends(write) -> None:
    polite = SLOW + "try:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('bye')"
    path = write(polite, "3")
    with running(path) as process:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "['executed', 'not-run']" in said
    assert nbformat.read(path, 4).cells[0].outputs[0].text == "slow begins\nbye\n"


def test_the_kernel_does_not_outlive_the_run(write) -> None:
    path = write("import os\nprint(os.getpid())", SLOW + "time.sleep(600)")
    with running(path) as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    pid = int(nbformat.read(path, 4).cells[0].outputs[0].text)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
