"""The headless driver, against ipykernel itself: what holds without any engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest

from nbrewind.errors import KernelError, NotebookError
from nbrewind.model.reports import CellReport
from nbrewind_kernels.driver import RunRequest, RunResult, run_notebook


class Watcher:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.lines: Sequence[str] = ()
        self.started_cells: list[int] = []
        self.reports: list[CellReport] = []
        self.warnings: list[str] = []

    def started(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def cell_started(self, index: int) -> None:
        self.started_cells.append(index)

    def cell_finished(self, report: CellReport) -> None:
        self.reports.append(report)

    def warning(self, text: str) -> None:
        self.warnings.append(text)


def run(path: Path, **options: object) -> RunResult:
    return run_notebook(RunRequest(path, "plain", **options))  # type: ignore[arg-type]


def actions(result: RunResult) -> list[str]:
    return [cell.action for cell in result.report.cells]


def outputs(path: Path) -> list[list[nbformat.NotebookNode]]:
    return [cell.outputs for cell in nbformat.read(path, 4).cells]


def test_a_notebook_runs_in_its_folder_and_is_written_in_place(write, tmp_path: Path) -> None:
    path = write("import os\nprint(os.getcwd())", "6 * 7", "", "# only a comment")
    watcher = Watcher()
    result = run_notebook(RunRequest(path, "plain"), watcher)
    assert result.exit_code == 0
    assert result.failure == ""
    assert result.written == path
    assert actions(result) == ["executed", "executed", "not-run", "not-run"]
    assert result.report.executed == 2
    assert [cell.index for cell in result.report.cells] == [0, 1, 2, 3]
    assert [cell.id for cell in result.report.cells] == ["c0", "c1", "c2", "c3"]
    assert watcher.started_cells == [0, 1, 3]
    assert watcher.reports == result.report.cells
    done = nbformat.read(path, 4)
    assert done.cells[0].outputs[0].text == f"{tmp_path}\n"
    assert done.cells[1].outputs[0].data["text/plain"] == "42"
    assert [cell.execution_count for cell in done.cells] == [1, 2, None, 3]
    assert done.metadata.language_info.name == "python"
    nbformat.validate(done)


def test_with_an_output_the_original_stays(write, tmp_path: Path) -> None:
    path = write("1 + 1")
    before = path.read_bytes()
    result = run(path, output=tmp_path / "out.ipynb")
    assert result.written == tmp_path / "out.ipynb"
    assert path.read_bytes() == before
    assert outputs(tmp_path / "out.ipynb")[0][0].data["text/plain"] == "2"


def test_parameters_are_injected(write) -> None:
    path = write(("a = 1", ["parameters"]), "print(a)")
    run(path, parameters={"a": "x"})
    assert [cell.source for cell in nbformat.read(path, 4).cells][1] == "# Parameters\na = 'x'\n"
    assert outputs(path)[2][0].text == "x\n"


def test_a_raising_cell_ends_the_run_and_the_notebook_is_saved(write) -> None:
    path = write("1", "{}['k']", "2", "3")
    first = nbformat.read(path, 4)
    first.cells[3].outputs = [nbformat.v4.new_output("stream", text="old")]
    first.cells[3].execution_count = 9
    nbformat.write(first, path)
    result = run(path)
    assert result.exit_code == 1
    assert actions(result) == ["executed", "failed", "not-run", "not-run"]
    assert "code cell 1 ({}['k']) raised KeyError" in result.failure
    assert "KeyError" in result.failure.splitlines()[-1]
    saved = nbformat.read(path, 4)
    assert saved.cells[1].outputs[0].ename == "KeyError"
    assert saved.cells[3].outputs == []
    assert saved.cells[3].execution_count is None


def test_cells_tagged_raises_exception_may_raise(write) -> None:
    path = write(("1 / 0", ["raises-exception"]), ("1 / 0", ["skip-execution"]), "'after'")
    result = run(path)
    assert result.exit_code == 0
    assert actions(result) == ["executed", "not-run", "executed"]
    assert outputs(path)[0][0].ename == "ZeroDivisionError"


def test_a_dead_kernel_is_told_with_its_cell_and_everything_is_saved(write) -> None:
    path = write("print('before')", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "3")
    result = run(path)
    assert result.exit_code == 1
    assert actions(result) == ["executed", "failed", "not-run"]
    assert "SIGKILL" in result.failure
    assert "code cell 1 (import os, signal)" in result.failure
    assert outputs(path)[0][0].text == "before\n"
    assert outputs(path)[1][-1].ename == "DeadKernel"


def test_a_cell_that_takes_too_long_is_interrupted(write) -> None:
    path = write("x = 1", "import time\nprint('begun', flush=True)\ntime.sleep(600)", "x")
    result = run(path, cell_timeout=1.0)
    assert result.exit_code == 1
    assert actions(result) == ["executed", "failed", "not-run"]
    assert "ran longer than 1 s" in result.failure
    assert outputs(path)[1][0].text == "begun\n"
    assert outputs(path)[1][-1].ename == "KeyboardInterrupt"


def test_displays_are_updated_across_cells(write) -> None:
    path = write(
        "from IPython.display import display\nhandle = display('a', display_id='one')",
        "print('between')\nhandle.update('b')",
        "from IPython.display import clear_output\nprint('x')\nclear_output()\nprint('y')",
    )
    run(path)
    assert outputs(path)[0][0].data["text/plain"] == "'b'"
    assert [out.output_type for out in outputs(path)[1]] == ["stream"]
    assert [out.text for out in outputs(path)[2]] == ["y\n"]


def test_text_of_one_stream_is_joined_and_order_between_streams_kept(write) -> None:
    path = write(
        "import sys\n"
        "for i in range(3):\n    print(i, flush=True)\n"
        "print('e', file=sys.stderr, flush=True)\n"
        "print('o', flush=True)"
    )
    run(path)
    assert [(out.name, out.text) for out in outputs(path)[0]] == [
        ("stdout", "0\n1\n2\n"),
        ("stderr", "e\n"),
        ("stdout", "o\n"),
    ]


def test_running_twice_writes_the_same_file(write) -> None:
    path = write("print(1)", "'x'")
    run(path)
    once = path.read_bytes()
    before = path.stat().st_mtime_ns
    run(path)
    assert path.read_bytes() == once
    assert path.stat().st_mtime_ns == before


def test_nobody_answers_questions(write) -> None:
    path = write("input('name? ')")
    result = run(path)
    assert result.exit_code == 1
    assert "does not support input requests" in result.failure


def test_the_users_history_and_folder_stay_clean(write, tmp_path: Path) -> None:
    run(write("1"))
    assert os.listdir(tmp_path) == ["nb.ipynb"]
    assert not Path(os.environ["IPYTHONDIR"], "profile_default", "history.sqlite").exists()


def test_a_kernel_that_cannot_start_says_why_and_leaves_the_notebook(write, monkeypatch) -> None:
    path = write("1")
    before = path.read_bytes()
    monkeypatch.setattr(
        "nbrewind_kernels.kernelspecs.sys.executable", str(path.parent / "no-python")
    )
    with pytest.raises(KernelError, match="cannot be started"):
        run(path)
    assert path.read_bytes() == before


def test_a_kernel_that_dies_while_starting_says_why(write, tmp_path: Path, monkeypatch) -> None:
    path = write("1")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'the reason it failed' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("nbrewind_kernels.kernelspecs.sys.executable", str(broken))
    with pytest.raises(KernelError, match="the reason it failed"):
        run(path)


def test_a_place_that_cannot_be_written_is_found_before_the_run(write, tmp_path: Path) -> None:
    path = write("raise SystemExit")
    with pytest.raises(NotebookError, match="does not exist"):
        run(path, output=tmp_path / "missing" / "out.ipynb")


def test_a_notebook_without_code_needs_no_kernel(write, monkeypatch) -> None:
    monkeypatch.setattr("nbrewind_kernels.kernelspecs.sys.executable", "no-python")
    result = run(write("", "  "))
    assert result.exit_code == 0
    assert actions(result) == ["not-run", "not-run"]
