"""Mappings against layouts in numpy: shard, take the pieces, put them together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbrewind.errors import RuleError
from nbrewind.training.rules import (
    Fused,
    Mapping,
    Mesh,
    Pattern,
    Rule,
    Rules,
    Shard,
    Step,
    inherited,
)
from nbrewind.training.rules.compiling import compile_steps, logical_shape
from nbrewind.training.rules.lines import range_boxes

from .layouts import Array, Layout, assembled, layouts, local

SHAPES = st.one_of(
    st.tuples(),
    st.tuples(st.integers(0, 13)),
    st.tuples(st.sampled_from([1, 4, 6, 7, 8, 12, 24]), st.integers(0, 5)),
    st.tuples(st.integers(1, 4), st.sampled_from([2, 6, 9]), st.integers(1, 4)),
)


def logical(shape: tuple[int, ...]) -> Array:
    return np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)


def ranks(layout: Layout, shape: tuple[int, ...]) -> list[tuple[Mapping, Array]]:
    """What each rank has, with its mapping."""
    found = []
    for coordinates in layout.mesh.coordinates():
        array = local(logical(shape), layout, coordinates)
        mapping = compile_steps(
            layout.steps, "w", shape, layout.mesh, coordinates, local=array.shape
        )
        found.append((mapping, array))
    return found


@given(st.data(), SHAPES)
@settings(max_examples=250, deadline=None)
def test_what_ranks_have_makes_the_logical_tensor(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    layout = data.draw(layouts(shape))
    assert np.array_equal(assembled(shape, ranks(layout, shape)), logical(shape))


@given(st.data(), SHAPES)
@settings(max_examples=250, deadline=None)
def test_what_one_layout_saved_another_loads_through_pieces_alone(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    one, other = data.draw(layouts(shape)), data.draw(layouts(shape))
    saved = [
        (piece.whole, part.copy())
        for mapping, array in ranks(one, shape)
        for part, piece in mapping.parts(array)
    ]
    for mapping, expected in ranks(other, shape):
        loaded = np.full(mapping.local_shape, np.nan)
        for part, piece in mapping.parts(loaded):
            assert np.shares_memory(part, loaded)
            for box, values in saved:
                common = piece.within(box)
                if common is not None:
                    inside = common.whole.seen_from(piece.whole)
                    part[(*inside.slices, ...)] = values[common.whole.seen_from(box).slices]
        mapping.fill(loaded)
        assert np.array_equal(loaded, expected)


@given(st.data(), SHAPES)
@settings(max_examples=150, deadline=None)
def test_elements_of_a_rank_are_in_one_box_each(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    layout = data.draw(layouts(shape))
    for mapping, array in ranks(layout, shape):
        count = np.zeros(mapping.local_shape)
        for part, _ in mapping.parts(count):
            part += 1
        filled = np.zeros(mapping.local_shape)
        mapping.fill(filled)
        for window in mapping.windows:
            seen = window.view.of(count)
            for box, _ in window.fills:
                seen[(*box.slices, ...)] += 1
        assert np.all(count == 1)
        assert array.shape == mapping.local_shape


@given(st.data(), SHAPES)
@settings(max_examples=150, deadline=None)
def test_the_logical_shape_is_told_by_what_ranks_have(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    layout = data.draw(layouts(shape))
    names = [step.operation.name for step in layout.steps]
    if "flat" in names or "pad" in names:
        return
    shapes = [array.shape for _, array in ranks(layout, shape)]
    assert logical_shape(layout.steps, layout.mesh, shapes) == shape


@given(st.lists(st.integers(1, 5), max_size=4), st.data())
def test_a_range_of_elements_is_few_boxes(shape: list[int], data: st.DataObject) -> None:
    size = int(np.prod(shape))
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    boxes = [*range_boxes(shape, start, stop)]
    assert len(boxes) <= max(2 * len(shape) - 1, 1)
    array = np.arange(size).reshape(shape)
    found = [value for box in boxes for value in array[box.slices].reshape(-1)]
    assert found == [*range(start, stop)]


def compiled(text: str, mesh: Mesh, rank: int, shapes: Any, local_shapes: Any = None) -> Any:
    return Rules.parse(text).compile(mesh, mesh.at(rank), shapes, local_shapes)


@given(
    st.lists(SHAPES, min_size=1, max_size=5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(["given", "sorted"]),
)
@settings(max_examples=100, deadline=None)
def test_several_tensors_in_one_line(
    shapes: list[tuple[int, ...]], degree: int, align: int, starts: int, order: str
) -> None:
    named = {f"{9 - n}": shape for n, shape in enumerate(shapes)}
    arrays = {name: logical(shape) * (int(name) + 1) for name, shape in named.items()}
    line: Array = np.zeros(0)
    for name in sorted(named) if order == "sorted" else named:
        line = np.concatenate([np.pad(line, (0, -len(line) % starts)), arrays[name].reshape(-1)])
    line = np.pad(line, (0, -len(line) % (degree * align)))
    mesh = Mesh({"dp": degree})
    text = f"** = flat(order={order}, align={align}, starts={starts}) @dp"
    found: dict[str, list[tuple[Mapping, Array]]] = {name: [] for name in named}
    for rank, buffer in enumerate(np.split(line, degree)):
        for name, mapping in compiled(text, mesh, rank, named).items():
            assert mapping.line == len(buffer)
            own = buffer[mapping.place :][: mapping.local_shape[0]]
            assert own.shape == mapping.local_shape
            found[name].append((mapping, own))
    for name, saved in found.items():
        assert np.array_equal(assembled(named[name], saved), arrays[name])


def test_a_fused_projection_is_not_divided_as_if_it_were_one_tensor() -> None:
    mesh = Mesh({"tp": 2})
    text = "qkv = fused(0, heads=[4, 2, 2]) @tp"
    boxes = [
        [(p.local.offsets[0], p.whole.offsets[0], p.whole.lengths[0]) for p in m["qkv"].pieces]
        for m in (compiled(text, mesh, rank, {"qkv": (32, 3)}) for rank in range(2))
    ]
    assert boxes == [[(0, 0, 8), (8, 16, 4), (12, 24, 4)], [(0, 8, 8), (8, 20, 4), (12, 28, 4)]]


def test_heads_of_keys_are_copied_if_there_are_fewer_than_ranks() -> None:
    mesh = Mesh({"tp": 4})
    found = [
        compiled("k = fused(0, heads=[2]) @tp", mesh, rank, {"k": (4,)})["k"].pieces[0].whole
        for rank in range(4)
    ]
    assert [box.offsets for box in found] == [(0,), (0,), (2,), (2,)]
    with pytest.raises(RuleError, match=r"k .*: 2 heads cannot be copied to 3 ranks evenly"):
        compiled("k = fused(0, heads=[2]) @tp", Mesh({"tp": 3}), 0, {"k": (4,)})


def test_a_vocabulary_is_padded_to_what_the_rank_has() -> None:
    mesh = Mesh({"tp": 4})
    text = "emb = pad(0, logical=10, fill=7) | shard(0) @tp"
    mapping = compiled(text, mesh, 3, {"emb": (10, 2)}, {"emb": (4, 2)})["emb"]
    (window,) = mapping.windows
    assert not window.pieces
    assert [box.lengths for box, _ in window.fills] == [(4, 2)]
    assert Rules.parse(text).logical_shape("emb", mesh, [(4, 2)] * 4) == (10, 2)
    with pytest.raises(RuleError, match="give pad to= or multiple="):
        compiled(text, mesh, 3, {"emb": (10, 2)})
    with pytest.raises(RuleError, match="has 11 without padding, not 10"):
        compiled(text, mesh, 3, {"emb": (11, 2)}, {"emb": (4, 2)})


def test_tied_weights_are_one_tensor() -> None:
    mesh = Mesh({"tp": 2})
    text = """
        emb = shard(0) @tp
        {part}.head = alias(emb)
    """
    found = compiled(text, mesh, 1, {"emb": (4, 2), "out.head": (4, 2)})
    assert found["out.head"].alias
    assert not found["emb"].alias
    assert found["out.head"].name == "emb"
    assert found["out.head"].pieces == found["emb"].pieces
    with pytest.raises(RuleError, match="circle: a -> b -> a"):
        compiled("a = alias(b)\nb = alias(a)", mesh, 0, {"a": (2,), "b": (2,)})


def test_experts_that_a_rank_numbers_from_0_get_their_number_of_all() -> None:
    mesh = Mesh({"ep": 3})
    text = "layers.{l}.experts.{e}.w = expert(index=e, count=8, layer=l) @ep"
    name = "layers.5.experts.1.w"
    mapping = compiled(text, mesh, 2, {name: (4, 2)})[name]
    assert mapping.name == "layers.5.experts.7.w"
    assert mapping.expert is not None
    assert (mapping.expert.layer, mapping.expert.index) == ("5", 7)
    with pytest.raises(RuleError, match="no expert 2 on this rank, which has 2 of 8"):
        compiled(text, mesh, 2, {"layers.5.experts.2.w": (4, 2)})
    stacked = compiled("m.{l}.w = expert(0, layer=l) @ep", mesh, 1, {"m.3.w": (7, 2)})["m.3.w"]
    assert (stacked.expert.layer, stacked.expert.dim) == ("3", 0)
    assert stacked.pieces[0].whole.offsets == (3, 0)


def test_values_by_rank_on_another_number_of_ranks() -> None:
    mesh = Mesh({"dp": 3})
    shapes = {"rng": (2, 5)}
    keep = [compiled("rng = per_rank(resize=keep)", mesh, r, shapes)["rng"] for r in range(3)]
    assert [bool(m.windows) for m in keep] == [True, True, False]
    derive = [compiled("rng = per_rank(resize=derive)", mesh, r, shapes)["rng"] for r in range(3)]
    assert [m.derived for m in derive] == [False, False, True]
    assert [m.windows[0].pieces[0].whole.offsets for m in derive] == [(0, 0), (1, 0), (0, 0)]
    with pytest.raises(RuleError, match="2 ranks had a value of their own, here are 3"):
        compiled("rng = per_rank", mesh, 0, shapes)
    array = np.zeros(5)
    for part, _ in derive[1].parts(array):
        part += 1
    assert array.tolist() == [1] * 5


def test_copies_and_averages_are_told() -> None:
    mesh = Mesh({"dp": 2, "tp": 2, "one": 1})
    found = compiled("a = average @dp\nb = replicate(exact)", mesh, 0, {"a": (2,), "b": (2,)})
    assert (found["a"].averaged, found["a"].copies) == (("dp",), ("tp",))
    assert (found["b"].copies, found["b"].check) == (("dp", "tp"), True)


def test_optimizer_state_lies_as_its_parameter_does() -> None:
    mesh = Mesh({"tp": 2})
    parameter = compiled("w = shard(0) @tp", mesh, 1, {"w": (5, 2)})["w"]
    moment = inherited(parameter, "opt.w.exp_avg", (2, 2), mesh)
    assert (moment.name, moment.windows) == ("opt.w.exp_avg", parameter.windows)
    step = inherited(parameter, "opt.w.step", (), mesh)
    assert (step.shape, step.copies) == ((), ("tp",))
    with pytest.raises(RuleError, match=r"opt.w.row has the shape \(5,\).*a rule of its own"):
        inherited(parameter, "opt.w.row", (5,), mesh)


@pytest.mark.parametrize(
    ("rule", "shape", "local_shape", "problem"),
    [
        ("shard(2) @tp", (4, 2), None, "no dimension 2 in a tensor of shape (4, 2)"),
        ("shard(0) @dp", (4, 2), None, "no axis dp: it has tp"),
        ("shard(0) @tpp", (4, 2), None, "did you mean tp?"),
        ("shard(0, [1, 2]) @tp", (4, 2), None, "sizes add up to 3, the dimension has 4"),
        ("shard(0, [1, 2, 1]) @tp", (4, 2), None, "there are 3 sizes for 2 ranks"),
        ("fused(0, parts=3) @tp", (4, 2), None, "4 is not divisible into 3 equal parts"),
        ("fused(0, widths=[3, 2]) @tp", (4, 2), None, "widths add up to 5, the dimension has 4"),
        ("fused(0, heads=[4, 2]) @tp", (4, 2), None, "4 is not divisible into 6 heads"),
        ("expert(0, count=5) @tp", (4, 2), None, "there are 4 experts, not 5"),
        ("transpose([0, 1, 2])", (4, 2), None, "dims has 3 dimensions, the tensor 2"),
        ("pad(0, to=3)", (4, 2), None, "a dimension of 4 cannot be padded to 3"),
        ("flat(ranges=[4, 3]) @tp", (4, 2), None, "ranges add up to 7, there are 8 elements"),
        ("flat(order=[a, b]) @tp", (4, 2), None, "differ in a"),
        ("shard(0) @tp", (4, 2), (3, 2), "the rule gives this rank (2, 2), but it has (3, 2)"),
    ],
)
def test_a_rule_that_does_not_fit_names_the_tensor(
    rule: str, shape: Any, local_shape: Any, problem: str
) -> None:
    known = {"w": local_shape} if local_shape else None
    with pytest.raises(RuleError) as caught:
        compiled(f"w = {rule}", Mesh({"tp": 2}), 0, {"w": shape}, known)
    assert problem in str(caught.value)
    assert "w" in str(caught.value)


def test_uneven_parts_need_the_shapes_of_all_ranks() -> None:
    rules = Rules((Rule(Pattern("w"), (Step(Shard(0), ("tp",)),)),))
    mesh = Mesh({"tp": 2})
    assert rules.logical_shape("w", mesh, [(3, 1), (2, 1)]) == (5, 1)
    with pytest.raises(RuleError, match="the rule gives this rank"):
        rules.logical_shape("w", mesh, [(2, 1), (3, 1)])
    with pytest.raises(RuleError, match="do not fit along dimension 0"):
        rules.logical_shape("w", mesh, [(2, 1), (2, 2)])


def test_a_fused_tensor_needs_one_way_to_tell_its_parts() -> None:
    with pytest.raises(ValueError, match="one of parts, widths and heads"):
        Fused(0, parts=2, heads=(1, 1))
