"""Presets: every name of a model has one rule, and layers computed in parallel are the same."""

from __future__ import annotations

import numpy as np
import pytest

from nbrewind.errors import RuleError
from nbrewind.training.rules import Mesh, Rules, presets

LLAMA = [
    "model.embed_tokens.weight",
    *(
        f"model.layers.{n}.{part}.weight"
        for n in range(2)
        for part in (
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
            "input_layernorm",
            "post_attention_layernorm",
        )
    ),
    "model.norm.weight",
    "lm_head.weight",
]
MIXTRAL = [
    *(name for name in LLAMA if ".mlp." not in name),
    *(
        f"model.layers.{n}.block_sparse_moe.{part}.weight"
        for n in range(2)
        for part in ("gate", *(f"experts.{e}.w{i}" for e in range(2) for i in (1, 2, 3)))
    ),
]
STACKED = [
    *(name for name in LLAMA if ".mlp." not in name),
    "model.layers.0.mlp.gate.weight",
    "model.layers.0.mlp.experts.gate_up_proj",
    "model.layers.0.mlp.experts.down_proj",
]
PHI = [
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.qkv_proj.weight",
    "model.layers.0.self_attn.o_proj.weight",
    "model.layers.0.mlp.gate_up_proj.weight",
    "model.layers.0.mlp.down_proj.weight",
    "model.norm.weight",
    "lm_head.weight",
]
GPT = [
    "transformer.wte.weight",
    "transformer.wpe.weight",
    *(
        f"transformer.h.0.{part}.{kind}"
        for part in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
        for kind in ("weight", "bias")
    ),
    "transformer.ln_f.weight",
    "transformer.ln_f.bias",
    "lm_head.weight",
]
BLOOM = [
    "transformer.word_embeddings.weight",
    "transformer.word_embeddings_layernorm.weight",
    *(
        f"transformer.h.0.{part}.{kind}"
        for part in (
            "input_layernorm",
            "post_attention_layernorm",
            "self_attention.query_key_value",
            "self_attention.dense",
            "mlp.dense_h_to_4h",
            "mlp.dense_4h_to_h",
        )
        for kind in ("weight", "bias")
    ),
    "transformer.ln_f.weight",
    "lm_head.weight",
]
MEGATRON = [
    "embedding.word_embeddings.weight",
    "embedding.position_embeddings.weight",
    "decoder.layers.0.self_attention.linear_qkv.weight",
    "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight",
    "decoder.layers.0.self_attention.linear_proj.weight",
    "decoder.layers.0.self_attention.linear_proj.bias",
    "decoder.layers.0.mlp.linear_fc1.weight",
    "decoder.layers.0.mlp.linear_fc2.weight",
    "decoder.final_layernorm.weight",
    "output_layer.weight",
]
LEGACY = [
    "language_model.embedding.word_embeddings.weight",
    "language_model.embedding.position_embeddings.weight",
    "language_model.encoder.layers.0.input_norm.weight",
    "language_model.encoder.layers.0.self_attention.query_key_value.weight",
    "language_model.encoder.layers.0.self_attention.query_key_value.bias",
    "language_model.encoder.layers.0.self_attention.dense.weight",
    "language_model.encoder.layers.0.mlp.dense_h_to_4h.bias",
    "language_model.encoder.layers.0.mlp.dense_4h_to_h.weight",
    "language_model.encoder.final_norm.weight",
]


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        (presets.llama(8, 2), LLAMA),
        (presets.llama(8, tp=None, vocabulary=10, tied=True), LLAMA),
        (presets.llama(8, 2), PHI),
        (presets.mixtral(8, 2, 4), MIXTRAL),
        (presets.mixtral(8, 2, 2, ep=None), MIXTRAL),
        (presets.mixtral(8, 2), STACKED),
        (presets.gpt(4), GPT),
        (presets.gpt(4, columns=False, tied=False), GPT),
        (presets.bloom(4), BLOOM),
        (presets.megatron(), MEGATRON),
        (presets.megatron(swiglu=True, vocabulary=5), LEGACY),
    ],
)
def test_every_name_has_one_rule(rules: Rules, names: list[str]) -> None:
    assert rules.limited_to(names).check(names)
    assert Rules.parse(str(rules)) == rules


def test_other_names_are_told() -> None:
    with pytest.raises(RuleError, match=r"no rule for model.layers.0.adapter.weight"):
        presets.llama(8).check([*LLAMA, "model.layers.0.adapter.weight"]).raise_for_names()


@pytest.mark.parametrize("degree", [1, 2, 4, 8])
def test_attention_and_mlp_computed_in_parallel_are_the_same(degree: int) -> None:
    """What rules divide is what a rank can compute with: 8 heads, 2 of keys, fused or not."""
    heads, kv, width, hidden, inner = 8, 2, 3, 6, 16
    rng = np.random.default_rng(0)
    p = "model.layers.0."
    weights = {
        f"{p}self_attn.qkv_proj.weight": rng.normal(size=((heads + 2 * kv) * width, hidden)),
        f"{p}self_attn.o_proj.weight": rng.normal(size=(hidden, heads * width)),
        f"{p}mlp.gate_up_proj.weight": rng.normal(size=(2 * inner, hidden)),
        f"{p}mlp.down_proj.weight": rng.normal(size=(hidden, inner)),
    }
    x = rng.normal(size=(5, hidden))

    def computed(w: dict[str, np.ndarray], ranks: int) -> np.ndarray:
        q_heads, k_heads = heads // ranks, max(kv // ranks, 1)
        rows = w[f"{p}self_attn.qkv_proj.weight"] @ x.T
        q, k, v = np.split(rows, [q_heads * width, (q_heads + k_heads) * width])
        out = []
        for head in range(q_heads):
            of = head * k_heads // q_heads
            scores = np.exp(q[head * width :][:width].T @ k[of * width :][:width] / 10)
            out.append(v[of * width :][:width] @ (scores / scores.sum(1, keepdims=True)).T)
        attended = w[f"{p}self_attn.o_proj.weight"] @ np.concatenate(out)
        gate, up = np.split(w[f"{p}mlp.gate_up_proj.weight"] @ x.T, 2)
        return attended + w[f"{p}mlp.down_proj.weight"] @ (np.tanh(gate) * up)

    rules = presets.llama(heads, kv).limited_to(weights)
    mesh = Mesh({"tp": degree})
    total = np.zeros((hidden, 5))
    for coordinates in mesh.coordinates():
        mappings = rules.compile(mesh, coordinates, {n: w.shape for n, w in weights.items()})
        own = {name: np.zeros(m.local_shape) for name, m in mappings.items()}
        for name, mapping in mappings.items():
            for part, piece in mapping.parts(own[name]):
                part[...] = weights[name][piece.whole.slices]
        total += computed(own, degree)
    assert np.allclose(total, computed(weights, 1))
