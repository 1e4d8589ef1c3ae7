"""What README and docs say is what happens: commands, snippets, outputs and links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import ELSEWHERE, EXECUTED, PAGES, ROOT, SHELLS, Page, blocks, is_run

LANGUAGES = EXECUTED | SHELLS | {"", "text", "csv", "json", "toml", "mermaid"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def has_snippets(path: Path) -> bool:
    return any(is_run(block) for block in blocks(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", [p for p in PAGES if has_snippets(p)], ids=name_of)
@pytest.mark.timeout(600)
def test_page_shows_what_its_commands_print(path: Path, tmp_path: Path) -> None:
    differences = Page(path, tmp_path).run()
    again = f"run: python tests/docs/refresh.py {name_of(path)}"
    assert not differences, "\n\n".join([*map(str, differences), again])


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_block_is_run_or_says_why_not(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        place = f"{name_of(path)}:{block.first}"
        assert block.language in LANGUAGES, f"{place}: unknown language {block.language}"
        if block.language in SHELLS:
            assert any(mark in block.marks for mark in ELSEWHERE), f"{place}: make it `console`"
        assert block.marks.get("not run", "a reason"), f"{place}: say why it is not run"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{name_of(path)} links to {target}"


def test_links_to_sections_lead_to_a_heading() -> None:
    for path in PAGES:
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", text):
            if "://" in target:
                continue
            other = (path.parent / target) if target else path
            headings = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), re.M)
            assert anchor in map(_anchor, headings), f"{name_of(path)} links to {target}#{anchor}"


def _anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")
