"""Megatron folders, laid out here by hand from a whole model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch

from nbrewind.errors import CheckpointError, RuleError
from nbrewind.training.convert import open_source, write_dcp
from nbrewind.training.convert.sources import LogicalTensor, Source
from nbrewind.training.rules import Rules

LAYERS, HIDDEN, INNER, VOCABULARY = 4, 8, 12, 16


def whole() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    p = "language_model."
    tensors = {f"{p}embedding.word_embeddings.weight": torch.randn(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        q = f"{p}encoder.layers.{layer}."
        tensors |= {
            f"{q}input_norm.weight": torch.randn(HIDDEN),
            f"{q}self_attention.query_key_value.weight": torch.randn(3 * HIDDEN, HIDDEN),
            f"{q}self_attention.query_key_value.bias": torch.randn(3 * HIDDEN),
            f"{q}self_attention.dense.weight": torch.randn(HIDDEN, HIDDEN),
            f"{q}self_attention.dense.bias": torch.randn(HIDDEN),
            f"{q}mlp.dense_h_to_4h.weight": torch.randn(2 * INNER, HIDDEN),
            f"{q}mlp.dense_4h_to_h.weight": torch.randn(HIDDEN, INNER),
        }
    return tensors | {f"{p}encoder.final_norm.weight": torch.randn(HIDDEN)}


def divided(name: str, tensor: torch.Tensor, tp: int, rank: int, swiglu: bool) -> torch.Tensor:
    if "dense_h_to_4h" in name and swiglu:
        gate, up = tensor.chunk(2)
        return torch.cat([gate.chunk(tp)[rank], up.chunk(tp)[rank]])
    if any(part in name for part in ("word_emb", "query_key", "dense_h_to_4h")):
        return tensor.chunk(tp)[rank].clone()
    if name.endswith(("dense.weight", "dense_4h_to_h.weight")):
        return tensor.chunk(tp, 1)[rank].clone()
    return tensor


def written(
    folder: Path, tp: int, pp: int, virtual: int = 1, swiglu: bool = True
) -> dict[str, torch.Tensor]:
    """Write a folder as Megatron does, with nested dictionaries and layers numbered by stage."""
    tensors = whole()
    each = LAYERS // (pp * virtual)
    for stage in range(pp):
        for rank in range(tp):
            state: dict[str, Any] = {
                "args": argparse.Namespace(swiglu=swiglu, num_layers=LAYERS, hooks=None),
                "checkpoint_version": 3.0,
                "iteration": 7,
            }
            for chunk in range(virtual):
                position = chunk * pp + stage
                encoder: dict[str, Any] = {}
                model: dict[str, Any] = {"encoder": encoder}
                for name, tensor in tensors.items():
                    own = divided(name, tensor, tp, rank, swiglu)
                    if "layers." in name:
                        rest = name.split("layers.")[1]
                        number, _, rest = rest.partition(".")
                        local = int(number) - position * each
                        if 0 <= local < each:
                            encoder[f"layers.{local}.{rest}"] = own
                    elif "embedding" in name and position == 0:
                        model["embedding"] = {"word_embeddings": {"weight": own}}
                    elif "final_norm" in name and position == pp * virtual - 1:
                        encoder["final_norm.weight"] = own
                made: dict[str, Any] = {"language_model": model}
                if pp > 1 and position == pp * virtual - 1:
                    made["word_embeddings_for_head"] = {"weight": torch.zeros(VOCABULARY // tp, 8)}
                state["model" if virtual == 1 else f"model{chunk}"] = made
            name = f"mp_rank_{rank:02}" + (f"_{stage:03}" if pp > 1 else "")
            path = folder / "iter_0000007" / name / "model_optim_rng.pt"
            path.parent.mkdir(parents=True)
            torch.save(state, path)
    (folder / "latest_checkpointed_iteration.txt").write_text("7")
    return tensors


@pytest.mark.parametrize(
    ("tp", "pp", "virtual", "swiglu"),
    [(1, 1, 1, False), (2, 1, 1, True), (4, 2, 1, True), (2, 4, 1, False), (2, 2, 2, True)],
)
def test_ranks_and_stages_are_put_together(
    tmp_path: Path, tp: int, pp: int, virtual: int, swiglu: bool
) -> None:
    expected = written(tmp_path, tp, pp, virtual, swiglu)
    source = open_source(tmp_path)
    assert source.format == "megatron"
    found = source.part("model").tensors
    assert {*found} == {*expected}
    for name, tensor in expected.items():
        assert torch.equal(found[name].read(), tensor), name
    assert source.tree["iteration"] == 7
    assert source.tree["args"]["num_layers"] == LAYERS


def test_a_missing_rank_is_told(tmp_path: Path) -> None:
    written(tmp_path, 2, 2)
    folder = tmp_path / "iter_0000007" / "mp_rank_01_000"
    (folder / "model_optim_rng.pt").unlink()
    with pytest.raises(CheckpointError, match=r"mp_rank_01_000 has no model_optim_rng.pt"):
        open_source(tmp_path)
    folder.rmdir()
    with pytest.raises(CheckpointError, match="lacks rank 1 of stage 0"):
        open_source(tmp_path)


def test_weights_of_other_models_need_rules(tmp_path: Path) -> None:
    path = tmp_path / "mp_rank_00" / "model_optim_rng.pt"
    path.parent.mkdir()
    torch.save({"model": {"adapter.down": torch.ones(2)}}, path)
    with pytest.raises(RuleError, match=r"no rule for adapter\.down"):
        open_source(tmp_path)
    source = open_source(tmp_path, rules=Rules.parse("** = replicate"))
    assert [*source.part("model").tensors] == ["adapter.down"]


def test_torch_dist_is_a_folder_of_dcp_with_values_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "iter_0000007"
    write_dcp(Source({"decoder.w": LogicalTensor.of(torch.ones(2))}), folder)
    torch.save({"args": argparse.Namespace(x=1), "iteration": 7}, folder / "common.pt")
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("7")
    source = open_source(tmp_path)
    assert source.format == "dcp"
    assert source.tensors["decoder.w"].read().tolist() == [1, 1]
    assert source.notes["common"]["iteration"] == 7
