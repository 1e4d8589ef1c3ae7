"""What command lines and scripts tell of the files they use."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.state.command_lines import Told


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("1")
    (tmp_path / "d").mkdir()
    return tmp_path


def told(text: str, root: Path) -> Told:
    found = Told()
    found.shell(text, str(root))
    return found


def names(paths: set[str], root: Path) -> set[str]:
    return {str(Path(path).relative_to(root)) for path in paths}


@pytest.mark.parametrize(
    ("text", "named", "overwritten"),
    [
        ("cat a.csv > out", {"a.csv"}, {"out"}),
        ("wc -l < a.csv 2>/dev/null", {"a.csv"}, set()),
        ("cp a.csv d", {"a.csv"}, {"d/a.csv"}),
        ("cp a.csv c.csv; mv c.csv e.csv", {"a.csv", "c.csv"}, {"c.csv", "e.csv"}),
        ("cat a.csv | tee x y >/dev/null", {"a.csv"}, {"x", "y"}),
        ("cd d && cat ../a.csv > o", {"a.csv"}, {"d/o"}),
        ("X=1 time sort -k 2 a.csv -o 'b.csv'", {"a.csv", "b.csv"}, set()),
        ("prog --in=a.csv if=b.csv", {"a.csv", "b.csv"}, set()),
        ("cat > x <<EOF\nrm -f a.csv\nEOF", set(), {"x"}),
        ("echo 'one\ntwo a.csv' 2>&1 # > no", set(), set()),
        ("for f in a.csv *.x; do cat $f; done", {"a.csv"}, set()),
        ("bash -c 'cat a.csv'", {"a.csv"}, set()),
        ("echo $(cat a.csv)", {"a.csv"}, set()),
    ],
)
def test_paths_that_are_named_and_written_over(
    text: str, named: set[str], overwritten: set[str], root: Path
) -> None:
    found = told(text, root)
    assert names(found.named, root) == named
    assert names(found.overwritten, root) == overwritten


@pytest.mark.parametrize(
    "text",
    [
        *("[ -f x ] || echo 1 > y", "test ! -d x", "touch x", "mkdir x", "[[ x ]] && cat a.csv"),
    ],
)
def test_paths_whose_existence_matters(text: str, root: Path) -> None:
    found = told(text, root)
    assert names(found.tested, root) == {"x"}
    assert not found.careful


@pytest.mark.parametrize(
    "text",
    [
        *("cat a.csv >> log", "[ -f $x ] || echo 1 > x", "make", "./tool", "touch *"),
        *("tee -a log", "cp -n a.csv b.csv", "gzip a.csv", "unknown a.csv", "python -m unknown"),
        *('python -c \'open("x", "a")\'', "python -c 'import os; os.path.exists(\"x\")'"),
        "python - <<X\nopen('x', 'r+')\nX",
    ],
)
def test_programs_that_may_look_before_they_write(text: str, root: Path) -> None:
    assert told(text, root).careful


@pytest.mark.parametrize(
    "text",
    [
        *("cat a.csv > b.csv", "mkdir -p e", "rm -rf e", "grep x a.csv | sort | uniq -c"),
        'python -c \'import os; os.makedirs("e", exist_ok=True); open("x", "w")\'',
    ],
)
def test_programs_that_come_to_the_same_whatever_is_there(text: str, root: Path) -> None:
    assert not told(text, root).careful


@pytest.mark.parametrize(
    "text",
    [
        *(
            "pip install x",
            "python -m pip install x",
            "sudo ls",
            "cd d; git pull",
            "ls | xargs ssh",
        ),
        *(
            "x=`date`",
            "echo $(hostname)",
            "if true; then curl u; fi",
            "nohup sleep 9",
            "FOO=1 wget u",
        ),
        *("python -c 'import requests'", "python -c 'from urllib import request'", "bash fetch.sh"),
        "timeout 3 ssh x",
    ],
)
def test_programs_that_act_elsewhere_or_tell_of_the_moment(text: str, root: Path) -> None:
    (root / "fetch.sh").write_text("set -e\ncurl -O u\n")
    assert told(text, root).elsewhere


def test_a_folder_that_is_made_unless_it_is_there_is_no_input(root: Path) -> None:
    found = told("mkdir -p e/f; echo 1 >> e/f/log", root)
    assert found.careful
    assert {str(root / "e"), str(root / "e/f")} <= found.overwritten


def test_words_of_texts_are_no_commands(root: Path) -> None:
    assert not told("echo date; grep git a.csv; cat > x <<E\ncurl\nE", root).elsewhere


def test_scripts_are_read_with_what_they_name(root: Path) -> None:
    (root / "s.py").write_text("import sys\nopen('b.csv').read()\nopen('o', 'w')\n")
    (root / "s.sh").write_text("#!/bin/sh\npython s.py\n")
    found = told("./s.sh", root)
    assert names(found.named, root) == {"s.sh", "s.py", "b.csv"}
    assert found.modules == {"sys"}
    assert found.python
    assert not found.careful
    (root / "s.py").write_text("import os\nos.listdir('.')")
    assert told("sh s.sh", root).lists


def test_standard_input_may_be_a_script(root: Path) -> None:
    found = Told()
    found.argv(["bash"], str(root), ["cat a.csv\ndate\n"])
    assert names(found.named, root) == {"a.csv"}
    assert found.elsewhere == "date"
