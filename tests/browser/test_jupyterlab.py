"""A person in JupyterLab: audit, edit, replay, and see what was reused."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import nbformat
import pytest
from playwright.sync_api import Page, expect, sync_playwright

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SCREENSHOT = ROOT / "docs" / "images" / "jupyterlab-replay.png"
TOKEN = "token-of-this-test"
PATIENCE = 120_000
"""Milliseconds to wait for anything in the page."""

CELLS = [
    "import time\nimport numpy as np\nimport matplotlib.pyplot as plt",
    "rng = np.random.default_rng(7)\nsamples = rng.normal(size=(200_000, 8))\nsamples.shape",
    "time.sleep(3)  # stands for a long computation\nmeans = samples.mean(axis=0)\nprint('done')",
    "threshold = 0.002",
    "chosen = np.flatnonzero(np.abs(means) > threshold)\nprint('chosen:', chosen)",
    "plt.figure(figsize=(5, 1.5))\nplt.bar(range(8), means);",
    "%rewind report",
]
EDITED, CHANGE = 3, "threshold = 0.001"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a notebook, and Jupyter's own directories with our kernels beside it."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    work = tmp_path / "work"
    work.mkdir()
    nbformat.write(notebook, work / "analysis.ipynb")
    overrides = tmp_path / "config" / "labconfig" / "default_setting_overrides.json"
    overrides.parent.mkdir(parents=True)
    quiet = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
    overrides.write_text(json.dumps(quiet))
    kernels = tmp_path / "data" / "kernels"
    for spec in (ROOT / "kernels" / "kernelspecs").iterdir():
        shutil.copytree(spec, kernels / spec.name)
        shutil.copytree(
            ROOT / "kernels" / "nbrewind_kernels" / "logos" / spec.name,
            kernels / spec.name,
            dirs_exist_ok=True,
        )
        path = kernels / spec.name / "kernel.json"
        settings = json.loads(path.read_text())
        settings["argv"][0] = sys.executable
        path.write_text(json.dumps(settings))
    return work


@pytest.fixture
def lab(folder: Path) -> Iterator[str]:
    """A JupyterLab server; its address."""
    base = folder.parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(base / "config"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "IPYTHONDIR": str(base / "ipython"),
        "NBREWIND_CONFIG_DIR": str(base / "nbrewind"),
        "PYTHONPATH": os.pathsep.join(
            str(ROOT / part) for part in ("", "kernels", "analysis", "packaging")
        ),
    }
    environ.pop("PYTEST_CURRENT_TEST", None)
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ip", "127.0.0.1", "--port", str(port), "--ServerApp.port_retries=0"),
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with (base / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/api?token={TOKEN}", server)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    pause = 0.2
    for _ in range(300):
        assert server.poll() is None, "JupyterLab ended; see lab.log"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (URLError, ConnectionError, TimeoutError):
            try:
                server.wait(pause)
            except subprocess.TimeoutExpired:
                continue
    raise AssertionError("JupyterLab did not start")


@contextmanager
def browser_page() -> Iterator[Page]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium is not None, "this test needs Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1200, "height": 1100})
            page.set_default_timeout(PATIENCE)
            expect.set_options(timeout=PATIENCE)
            yield page
        finally:
            browser.close()


def pick_kernel(page: Page, name: str) -> None:
    """Choose a kernel in the notebook's kernel menu and wait until it is ready."""
    page.locator(".jp-NotebookPanel .jp-KernelName").click()
    page.locator(".jp-Dialog select").select_option(label=name)
    page.locator(".jp-Dialog button.jp-mod-accept").click()
    expect(page.locator(".jp-NotebookPanel .jp-KernelName")).to_have_text(name)
    wait_until_idle(page)


def wait_until_idle(page: Page) -> None:
    page.locator('.jp-NotebookPanel .jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(
        state="attached"
    )


def run_all(page: Page) -> None:
    """Run → Run All Cells."""
    page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click()
    page.locator('.lm-Menu-item[data-command="runmenu:run-all"]').click()


def edit(page: Page, number: int, text: str) -> None:
    editor = page.locator(".jp-Notebook .jp-CodeCell").nth(number).locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def report(page: Page) -> dict[str, str]:
    """What `%rewind report` shows: the action of each cell, by its first line."""
    table = page.locator(".jp-OutputArea-output .nbrewind-report")
    rows = table.locator("tbody tr").all()
    shown = [row.locator("td").all_inner_texts() for row in rows]
    return {texts[1]: texts[2] for texts in shown}


def test_a_person_audits_edits_and_replays(lab: str) -> None:
    with browser_page() as page:
        page.goto(f"{lab}/lab/tree/analysis.ipynb?token={TOKEN}&reset")
        wait_until_idle(page)

        pick_kernel(page, "Python 3 (NBRewind audit)")
        run_all(page)
        summary = page.locator(".jp-OutputArea-output .nbrewind-report b")
        expect(summary).to_contain_text("NBRewind audit: 6 executed, 0 reused")
        expect(page.locator('.jp-OutputArea-output:has-text("chosen:")')).to_have_count(1)
        assert set(report(page).values()) == {"executed"}

        edit(page, EDITED, CHANGE)
        pick_kernel(page, "Python 3 (NBRewind replay)")
        run_all(page)
        expect(summary).to_contain_text("NBRewind replay: 2 executed, 4 reused")
        wait_until_idle(page)

        actions = report(page)
        executed = {line for line, action in actions.items() if action == "executed"}
        assert executed == {CHANGE, "chosen = np.flatnonzero(np.abs(means) > threshold)"}
        # Reused cells show their outputs: the figure, the text, the result.
        code_cells = page.locator(".jp-Notebook .jp-CodeCell")
        expect(code_cells.nth(1).locator(".jp-OutputArea-executeResult")).to_contain_text("200000")
        expect(code_cells.nth(2).locator(".jp-OutputArea-output")).to_contain_text("done")
        expect(code_cells.nth(5).locator("img")).to_have_count(1)

        if os.environ.get("NBREWIND_SCREENSHOTS") or not SCREENSHOT.exists():
            SCREENSHOT.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOT)
