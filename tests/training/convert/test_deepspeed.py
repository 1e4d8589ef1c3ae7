"""ZeRO folders, laid out here by hand as DeepSpeed does; see `test_deepspeed_itself.py`."""

from __future__ import annotations

import enum
import sys
import types
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbrewind.errors import CheckpointError
from nbrewind.training.convert import open_source
from nbrewind.training.rules import Rules

Group = dict[str, tuple[int, ...]]


class LossScaler:
    def __init__(self) -> None:
        self.cur_scale = 1.0


class ZeroStageEnum(int, enum.Enum):
    disabled = 0
    optimizer_states = 1
    gradients = 2
    weights = 3


def padded(line: torch.Tensor, unit: int) -> torch.Tensor:
    return torch.nn.functional.pad(line, (0, -line.numel() % unit))


def written(
    folder: Path, stage: int, ranks: int, groups: list[Group], frozen: Group, tp: int = 0
) -> dict[str, dict[str, torch.Tensor]]:
    """Write a folder; returns weights and moments by name."""
    torch.manual_seed(stage + 10 * tp)
    every = {n: s for g in [*groups, frozen] for n, s in g.items()}
    kinds = ("fp32", "exp_avg", "exp_avg_sq")
    truth = {kind: {n: torch.randn(s) for n, s in every.items()} for kind in kinds}
    lines: dict[str, list[list[torch.Tensor]]] = {kind: [] for kind in kinds}
    for kind in kinds:
        for group in groups:
            if stage == 3:
                shares = [padded(truth[kind][n].reshape(-1), ranks).chunk(ranks) for n in group]
                lines[kind].append([torch.cat(own) for own in zip(*shares, strict=True)])
            else:
                line = torch.cat([truth[kind][n].reshape(-1) for n in group])
                lines[kind].append([*padded(line, 2 * ranks).chunk(ranks)])
    step = folder / "global_step3"
    step.mkdir(parents=True, exist_ok=True)
    (folder / "latest").write_text("global_step3")
    for rank in range(ranks):
        fragments = {
            n: padded(truth["fp32"][n].reshape(-1), ranks).chunk(ranks)[rank]
            if stage == 3
            else truth["fp32"][n]
            for n in frozen
        }
        module = OrderedDict((n, t.bfloat16()) for n, t in truth["fp32"].items())
        if stage == 3:
            module = OrderedDict((n, torch.empty(0)) for n in every)
        module["count"] = torch.tensor(7)
        module["tied"] = module[next(iter(groups[0]))]
        model = {
            "module": module,
            "buffer_names": ["count"],
            "param_shapes": [
                OrderedDict((n, torch.Size(s)) for n, s in group.items()) for group in groups
            ],
            "frozen_param_shapes": {n: torch.Size(s) for n, s in frozen.items()} or None,
            "frozen_param_fragments": fragments or None,
            "shared_params": {"tied": next(iter(groups[0]))} if stage == 3 else {},
            "global_steps": 3,
        }
        base = {
            "state": {
                n: {
                    "step": torch.tensor(3.0),
                    **{k: lines[k][n][rank] for k in kinds if k != "fp32"},
                }
                for n in range(len(groups))
            },
            "param_groups": [{"lr": 0.1, "params": [*range(len(groups))]}]
            if stage == 3
            else [{"lr": n, "params": [n]} for n in range(len(groups))],
        }
        own = [group[rank] for group in lines["fp32"]]
        optimizer = {
            "zero_stage": ZeroStageEnum(stage),
            "loss_scaler": LossScaler(),
            "partition_count": ranks if stage == 3 else [ranks] * len(groups),
            "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups": own,
            "optimizer_state_dict" if stage == 3 else "base_optimizer_state": base,
        }
        name = f"mp_rank_{tp:02}_model_states.pt"
        if stage == 3 or rank == 0:
            prefix = f"zero_pp_rank_{rank}_" if stage == 3 else ""
            torch.save(model, step / (prefix + name))
        file = f"zero_pp_rank_{rank}_mp_rank_{tp:02}_optim_states.pt"
        torch.save({"optimizer_state_dict": optimizer}, step / file)
    return truth


@pytest.fixture(autouse=True)
def names_of_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (
        "deepspeed.runtime.fp16.loss_scaler.LossScaler",
        "deepspeed.runtime.zero.config.ZeroStageEnum",
    ):
        module, _, name = path.rpartition(".")
        kind = {"LossScaler": LossScaler, "ZeroStageEnum": ZeroStageEnum}[name]
        made = types.ModuleType(module)
        setattr(made, name, kind)
        for depth in range(1, module.count(".") + 1):
            above = ".".join(module.split(".")[:depth])
            monkeypatch.setitem(sys.modules, above, types.ModuleType(above))
        monkeypatch.setitem(sys.modules, module, made)
        monkeypatch.setattr(kind, "__module__", module)


SHAPES = st.lists(st.integers(1, 5), max_size=3).map(tuple)


@given(
    stage=st.sampled_from([1, 2, 3]),
    ranks=st.integers(1, 3),
    groups=st.lists(st.lists(SHAPES, min_size=1, max_size=3), min_size=1, max_size=3),
    frozen=st.lists(SHAPES, max_size=2),
)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_weights_and_moments_are_put_together(
    tmp_path_factory: pytest.TempPathFactory,
    stage: int,
    ranks: int,
    groups: list[list[tuple[int, ...]]],
    frozen: list[tuple[int, ...]],
) -> None:
    folder = tmp_path_factory.mktemp("zero")
    named = [
        {f"g{n}.{m}": shape for m, shape in enumerate(group)} for n, group in enumerate(groups)
    ]
    still = {f"frozen.{n}": shape for n, shape in enumerate(frozen)}
    truth = written(folder, stage, ranks, named, still)
    source = open_source(folder)
    assert source.format == "deepspeed"
    model = source.part("model")
    for name in [*(n for g in named for n in g), *still]:
        assert torch.equal(model.tensors[name].read(), truth["fp32"][name]), name
    assert int(model.tensors["count"].read()) == 7
    first = next(iter(named[0]))
    assert torch.equal(model.tensors["tied"].read(), truth["fp32"][first])
    state = source.tree["optimizer"]["state"]
    assert {*state} == {n for g in named for n in g}
    for name, kept in state.items():
        for kind in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(kept[kind].read(), truth[kind][name])
        assert float(kept["step"].read()) == 3
    made = source.tree["optimizer"]["groups"]
    assert [n for group in made.values() for n in group["params"]] == [n for g in named for n in g]
    assert made[0]["options"] == {"lr": 0.1 if stage == 3 else 0}
    assert source.tree["client"] == {"global_steps": 3}


GROUPS: list[Group] = [{"a.w": (4, 3)}, {"b.w": (2, 5), "n": (3,)}]


@pytest.mark.parametrize("stage", [1, 3])
def test_tensor_parallel_parts_are_joined_by_rules(tmp_path: Path, stage: int) -> None:
    truths = [written(tmp_path, stage, 2, GROUPS, {}, tp) for tp in range(2)]
    with pytest.raises(CheckpointError, match="2 ranks of tensor parallelism: mapping rules"):
        open_source(tmp_path)
    rules = Rules.parse("a.w = shard(0) @tp\nb.w = shard(1) @tp\notherwise = replicate")
    source = open_source(tmp_path, rules=rules)
    for kind, tensors in (
        ("fp32", source.part("model").tensors),
        ("exp_avg", {n: s["exp_avg"] for n, s in source.tree["optimizer"]["state"].items()}),
    ):
        for name, dim in (("a.w", 0), ("b.w", 1)):
            expected = torch.cat([truth[kind][name] for truth in truths], dim)
            assert torch.equal(tensors[name].read(), expected)
        assert torch.equal(tensors["n"].read(), truths[0][kind]["n"])


@pytest.mark.parametrize("stage", [1, 3])
def test_a_rank_that_is_missing_is_told(tmp_path: Path, stage: int) -> None:
    written(tmp_path, stage, 3, GROUPS, {})
    step = tmp_path / "global_step3"
    (step / "zero_pp_rank_2_mp_rank_00_optim_states.pt").rename(tmp_path / "kept")
    with pytest.raises(CheckpointError, match="states of 2 ranks, but they were saved by 3"):
        open_source(tmp_path)
    (tmp_path / "kept").rename(step / "zero_pp_rank_2_mp_rank_00_optim_states.pt")
    (step / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    with pytest.raises(CheckpointError, match="lacks optimizer states of a rank"):
        open_source(tmp_path)


def test_shapes_that_do_not_fit_the_lines_are_told(tmp_path: Path) -> None:
    written(tmp_path, 1, 2, GROUPS, {})
    path = tmp_path / "global_step3" / "mp_rank_00_model_states.pt"
    model = torch.load(path)
    for shape in ((40, 3), (1, 1)):
        model["param_shapes"][0]["a.w"] = torch.Size(shape)
        torch.save(model, path)
        with pytest.raises(CheckpointError, match=r"damaged|no part holds"):
            open_source(tmp_path)


def test_other_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no model states of DeepSpeed"):
        open_source(tmp_path, "deepspeed")
    (tmp_path / "latest").write_text("global_step9")
    with pytest.raises(CheckpointError, match="global_step9 is missing"):
        open_source(tmp_path, "deepspeed")


def test_a_universal_folder(tmp_path: Path) -> None:
    for kind in ("fp32", "exp_avg"):
        path = tmp_path / "step_universal" / "zero" / "a.w" / f"{kind}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"param": torch.full((2, 3), len(kind)), "cat_dim": 0}, path)
    torch.save(torch.tensor(3.0), path.with_name("step.pt"))
    (tmp_path / "latest_universal").write_text("step_universal")
    source = open_source(tmp_path)
    assert source.format == "universal"
    assert source.part("model").tensors["a.w"].read().tolist() == [[4] * 3] * 2
    kept = source.tree["optimizer"]["state"]["a.w"]
    assert kept["exp_avg"].shape == (2, 3)
    assert float(kept["step"].read()) == 3
    path.with_name("fp32.pt").unlink()
    with pytest.raises(CheckpointError, match=r"a.w lacks fp32.pt"):
        open_source(tmp_path)
