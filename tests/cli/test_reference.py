"""The written command reference is that of the commands."""

from __future__ import annotations

import re
from pathlib import Path

from nbrewind.cli.reference import markdown

ROOT = Path(__file__).parent.parent.parent


def test_command_reference_is_current() -> None:
    written = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert written == markdown(), "run: python -m nbrewind.cli.reference > docs/reference/cli.md"


def test_reference_names_every_command_of_the_help(nbrewind) -> None:
    listed = re.findall(r"^  (\w+) ", nbrewind("--help").stdout.split("Commands:")[1], re.M)
    assert len(listed) >= 10
    for command in listed:
        assert f"nbrewind {command}" in markdown()


def test_readme_has_both_commands_on_one_line_each() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"<!-- command: (\w+) -->\n```bash\n(.*)\n```", readme)
    assert [name for name, _ in commands] == ["demo", "test"]
    assert commands[0][1].endswith("nbrewind demo")
    assert commands[1][1].endswith("pytest")
