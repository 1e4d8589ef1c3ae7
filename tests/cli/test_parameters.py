"""Parameters go in as papermill puts them in."""

from __future__ import annotations

import math

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from nbrewind.errors import UsageError
from nbrewind_kernels.parameters import inject, parse_parameters, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("None", None),
        ("True", True),
        ("false", False),
        ("abc", "abc"),
        ("", ""),
        ("a=b", "a=b"),
        ("[1, 'x']", [1, "x"]),
        ("{'a': (1, 2)}", {"a": (1, 2)}),
        ("'quoted'", "quoted"),
        ("[not a list", "[not a list"),
        ("2024-01-01", "2024-01-01"),
        ("__import__('os')", "__import__('os')"),
    ],
)
def test_values_are_what_a_person_means(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_raw_parameters_stay_text_and_win() -> None:
    assert parse_parameters(["a=1", "b=x=y"], ["a=1"]) == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize("item", ["a", "=1", "a b=1", "1a=1", "for=1", "a.b=1"])
def test_a_parameter_must_be_an_assignment_to_a_name(item: str) -> None:
    with pytest.raises(UsageError):
        parse_parameters([item])


def test_the_injected_cell_follows_the_defaults_and_is_replaced_later() -> None:
    nb = new_notebook(
        cells=[
            new_markdown_cell("text"),
            new_code_cell("a = 1", metadata={"tags": ["parameters"]}),
            new_code_cell("a"),
        ]
    )
    inject(nb, {"a": 2, "s": "it's"})
    assert nb.cells[2].source == '# Parameters\na = 2\ns = "it\'s"\n'
    assert nb.cells[2].metadata.tags == ["injected-parameters"]
    first_id = nb.cells[2].id
    nbformat.validate(nb)
    inject(nb, {"a": 3})
    assert len(nb.cells) == 4
    assert nb.cells[2].source == "# Parameters\na = 3\n"
    assert nb.cells[2].id == first_id


def test_without_defaults_it_comes_first_and_nothing_changes_without_values() -> None:
    nb = new_notebook(cells=[new_code_cell("x", id="injected-parameters")])
    inject(nb, {})
    assert len(nb.cells) == 1
    inject(nb, {"x": 1})
    assert nb.cells[0].source.endswith("x = 1\n")
    assert nb.cells[0].id != nb.cells[1].id


def test_notebooks_older_than_cell_ids_get_none() -> None:
    nb = new_notebook(cells=[])
    nb.nbformat_minor = 4
    inject(nb, {"x": 1})
    assert "id" not in nb.cells[0]
    nbformat.validate(nb)


def test_injected_source_gives_back_the_values() -> None:
    values = {"a": [1, {"b": None}], "f": math.inf, "t": 'quo"te\n', "n": -0.5}
    nb = new_notebook(cells=[])
    inject(nb, values)
    names: dict[str, object] = {}
    exec(nb.cells[0].source, names)
    assert {name: names[name] for name in values} == values
    nan = new_notebook(cells=[])
    inject(nan, {"x": math.nan})
    exec(nan.cells[0].source, names)
    assert math.isnan(names["x"])  # type: ignore[arg-type]
