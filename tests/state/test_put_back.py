"""Files of reused cells are put back as their run left them, inside the folder only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbrewind.errors import NotRestorable
from nbrewind.model.records import FileAccess
from nbrewind.model.versions import ABSENT, PRESENT, content_version
from nbrewind.state.put_back import put_back


def version(text: str) -> str:
    return content_version(text.encode())


def test_put_back_writes_removes_and_makes_folders(root: Path) -> None:
    put_back(root, FileAccess("a/b", write=version("1"), mode=0o750), b"1")
    assert (root / "a/b").read_text() == "1"
    assert (root / "a/b").stat().st_mode & 0o777 == 0o750
    assert os.listdir(root / "a") == ["b"]
    put_back(root, FileAccess("a/b", write=ABSENT))
    put_back(root, FileAccess("a", write=ABSENT, directory=True))
    assert not (root / "a").exists()
    put_back(root, FileAccess("n/m", write=PRESENT, directory=True))
    assert (root / "n/m").is_dir()
    put_back(root, FileAccess("only-read", read=version("1")))
    assert not (root / "only-read").exists()


@pytest.mark.parametrize("path", ["../x", "/tmp/nbrewind-x", "link/x", "a/../../x", "out", ".."])
def test_put_back_never_leaves_the_folder(root: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").write_text("safe")
    (root / "link").symlink_to(tmp_path)
    (root / "out").symlink_to(tmp_path / "outside")
    with pytest.raises(NotRestorable):
        put_back(root, FileAccess(path, write=version("1")), b"1")
    assert (tmp_path / "outside").read_text() == "safe"
    assert not (tmp_path / "x").exists()


def test_put_back_makes_links_that_lead_inside_only(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("1")
    put_back(root, FileAccess("d/l", write=version("1"), link="../a"))
    assert (root / "d/l").readlink() == Path("../a")
    put_back(root, FileAccess("d/l", write=version("1"), link="../a"))
    for text in ("../../x", str(tmp_path)):
        with pytest.raises(NotRestorable):
            put_back(root, FileAccess("d/m", write=version("1"), link=text))
        assert not os.path.lexists(root / "d/m")


def test_put_back_removes_a_link_and_not_what_it_names(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("safe")
    (root / "out").symlink_to(tmp_path / "outside")
    put_back(root, FileAccess("out", write=ABSENT))
    assert not os.path.lexists(root / "out")
    assert (tmp_path / "outside").read_text() == "safe"


def test_put_back_reports_what_stands_in_its_way(root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/x").write_text("1")
    with pytest.raises(NotRestorable):
        put_back(root, FileAccess("d", write=version("1")), b"1")
    with pytest.raises(NotRestorable):
        put_back(root, FileAccess("d", write=ABSENT, directory=True))
    with pytest.raises(NotRestorable):
        put_back(root, FileAccess("e", write=version("1")))
