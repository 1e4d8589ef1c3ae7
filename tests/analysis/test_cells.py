"""Cells as a whole: directives, semicolons, cells that do not parse."""

from __future__ import annotations

import pytest
from IPython.core.displayhook import DisplayHook
from IPython.core.inputtransformer2 import TransformerManager

from nbrewind_analysis.cells import analyse_cell

transform = TransformerManager().transform_cell


@pytest.mark.parametrize(
    ("source", "directive"),
    [
        ("# nbrewind: never\nx = 1", "never"),
        ("\n\n  #nbrewind:always", "always"),
        ("# nbrewind: auto please", "auto"),
        ("# nbrewind: neverland", None),
        ("x = 1\n# nbrewind: never", None),
        ("x = '# nbrewind: never'", None),
        ("", None),
    ],
)
def test_directive_of_the_first_line(source: str, directive: str | None) -> None:
    assert analyse_cell(source, transform).directive == directive


@pytest.mark.parametrize(
    "source",
    [
        "f()",
        "f();",
        "f() ;  # quiet",
        "f();\n\n# the end\n",
        "f()  # no;",
        "x = ';'",
        "x = 1; y",
        "for i in a: f();",
        "'é' + f();",
        "f(\n  1\n);",
        "",
        "#;",
        "if a:\n    try: f()\n    finally: g();",
    ],
)
def test_trailing_semicolon_as_the_display_hook_sees_it(source: str) -> None:
    cell = analyse_cell(source, transform)
    quiet = DisplayHook.semicolon_at_end_of_expression(cell.code)
    assert cell.trailing_semicolon == bool(quiet)


def test_a_cell_that_does_not_parse_reads_everything_and_has_the_digest_of_its_text() -> None:
    cell = analyse_cell("f(", transform)
    assert cell.syntax_error is not None
    assert cell.names.dynamic
    assert cell.digest == analyse_cell("f(").digest
    assert cell.digest != analyse_cell("f(  ", transform).digest


def test_a_transformation_that_fails_is_a_cell_that_does_not_parse() -> None:
    def fails(source: str) -> str:
        raise SyntaxError("no")

    assert analyse_cell("x", fails).syntax_error == "SyntaxError: no"


def test_code_is_the_transformed_text_and_identifiers_are_those_of_the_raw_one() -> None:
    cell = analyse_cell("%time f(x)", transform)
    assert "run_line_magic" in cell.code
    assert cell.raw_identifiers == {"time", "f", "x"}


def test_deep_nesting_is_no_error() -> None:
    cell = analyse_cell("x = " + "(" * 500 + ")" * 500)
    assert cell.syntax_error is not None
