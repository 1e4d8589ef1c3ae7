"""Where a kernel finds its notebook and its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind_kernels.location import Location


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_line_names_the_notebook_and_the_store(here: Path) -> None:
    environ = {"NBREWIND_NOTEBOOK": "sub/a.ipynb", "NBREWIND_STORE": "elsewhere"}
    found = Location.find(environ)
    assert (found.root, found.notebook, found.store) == (
        here / "sub",
        "a.ipynb",
        str(here / "elsewhere"),
    )
    assert Location.find({"NBREWIND_NOTEBOOK": "/x/b.ipynb"}).store == "/x/.nbrewind"


def test_a_jupyter_server_names_the_notebook(here: Path) -> None:
    found = Location.find({"JPY_SESSION_NAME": "folder/c.ipynb"})
    assert (found.root, found.notebook, found.store) == (here, "c.ipynb", str(here / ".nbrewind"))


def test_without_a_name_there_is_still_a_place(here: Path) -> None:
    assert Location.find({}).notebook == "unnamed"


def test_configuration_fills_what_the_environment_leaves_open(here: Path) -> None:
    found = Location.find({}).with_defaults("kept", "accept", {})
    assert (found.store, found.env_policy) == (str(here / "kept"), "accept")
    environ = {"NBREWIND_STORE": "given", "NBREWIND_ENV_POLICY": "rerun"}
    found = Location.find(environ).with_defaults("kept", "accept", environ)
    assert (found.store, found.env_policy) == (str(here / "given"), "rerun")
    assert found.with_defaults("", "rerun", {"NBREWIND_ENV_POLICY": "what"}).env_policy == "rerun"
