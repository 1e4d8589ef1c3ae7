"""Rules for models with the names that are usual in the field.

A preset has rules for everything that models of its kind may have; `Rules.limited_to` leaves out
those that are for nothing in one model. Names are as in Hugging Face's models, and in Megatron-LM.
Tensor parallelism divides whole attention heads, and copies those of keys and values if there are
fewer than ranks.
"""

from __future__ import annotations

from nbrewind.training.rules.ruleset import Rules


def llama(
    heads: int,
    kv_heads: int | None = None,
    *,
    tp: str | None = "tp",
    vocabulary: int | None = None,
    tied: bool = False,
    prefix: str = "model.",
) -> Rules:
    """Llama, Mistral, Qwen, Phi-3 and others of their kind.

    Args:
        heads: Attention heads of queries.
        kv_heads: Those of keys and values; as many if None.
        tp: Axis of tensor parallelism; None if there is none.
        vocabulary: Its size, if embeddings are padded.
        tied: Whether the output layer is the embedding.
        prefix: Before the names of everything but the output layer.

    Returns:
        The rules; see `Rules.limited_to`.
    """
    layer = f"{prefix}layers.{{layer}}."
    return _rules(
        _ends(f"{prefix}embed_tokens.weight", f"{prefix}norm.*", vocabulary, tied, tp),
        _attention(layer, heads, kv_heads or heads, tp),
        {
            f"{layer}mlp.gate_proj.*": _on("shard(0)", tp),
            f"{layer}mlp.up_proj.*": _on("shard(0)", tp),
            f"{layer}mlp.gate_up_proj.*": _on("fused(0, parts=2)", tp),
            f"{layer}mlp.down_proj.weight": _on("shard(1)", tp),
            f"{layer}mlp.down_proj.bias": "replicate",
        },
    )


def mixtral(
    heads: int,
    kv_heads: int | None = None,
    experts: int = 8,
    *,
    tp: str | None = "tp",
    ep: str | None = "ep",
    vocabulary: int | None = None,
    tied: bool = False,
    prefix: str = "model.",
) -> Rules:
    """Mixtral, Qwen-MoE and others of their kind: experts by name, or stacked in one tensor.

    Args:
        heads: Attention heads of queries.
        kv_heads: Those of keys and values; as many if None.
        experts: Number of experts of a layer.
        tp: Axis of tensor parallelism; None if there is none.
        ep: Axis of expert parallelism, on which ranks number their experts from 0; None if
            there is none.
        vocabulary: Its size, if embeddings are padded.
        tied: Whether the output layer is the embedding.
        prefix: Before the names of everything but the output layer.

    Returns:
        The rules; see `Rules.limited_to`.
    """
    layer = f"{prefix}layers.{{layer}}."
    numbered = f"expert(index=expert, count={experts}, layer=layer)" + (f" @{ep}" if ep else "")
    stacked = f"expert(0, count={experts}, layer=layer)" + (f" @{ep}" if ep else "")
    one = f"{layer}block_sparse_moe.experts.{{expert}}."
    other = f"{layer}mlp.experts.{{expert}}."
    return _rules(
        _ends(f"{prefix}embed_tokens.weight", f"{prefix}norm.*", vocabulary, tied, tp),
        _attention(layer, heads, kv_heads or heads, tp),
        {
            f"{layer}block_sparse_moe.gate.*": "replicate",
            f"{layer}mlp.gate.*": "replicate",
            f"{one}w1.weight": _then(numbered, "shard(0)", tp),
            f"{one}w2.weight": _then(numbered, "shard(1)", tp),
            f"{one}w3.weight": _then(numbered, "shard(0)", tp),
            f"{other}gate_proj.weight": _then(numbered, "shard(0)", tp),
            f"{other}up_proj.weight": _then(numbered, "shard(0)", tp),
            f"{other}down_proj.weight": _then(numbered, "shard(1)", tp),
            f"{layer}mlp.experts.gate_up_proj": _then(stacked, "fused(1, parts=2)", tp),
            f"{layer}mlp.experts.down_proj": _then(stacked, "shard(2)", tp),
        },
    )


def gpt(
    heads: int,
    *,
    tp: str | None = "tp",
    vocabulary: int | None = None,
    tied: bool = True,
    columns: bool = True,
    prefix: str = "transformer.",
) -> Rules:
    """GPT-2 and others of its kind.

    Args:
        heads: Attention heads.
        tp: Axis of tensor parallelism; None if there is none.
        vocabulary: Its size, if embeddings are padded.
        tied: Whether the output layer is the embedding.
        columns: Whether weights are (input, output), as of `Conv1D`, not as of `Linear`.
        prefix: Before the names of everything but the output layer.

    Returns:
        The rules; see `Rules.limited_to`.
    """
    layer = f"{prefix}h.{{layer}}."
    into, out = (1, 0) if columns else (0, 1)
    qkv = f"heads=[{heads}, {heads}, {heads}]"
    return _rules(
        _ends(f"{prefix}wte.weight", f"{prefix}ln_f.*", vocabulary, tied, tp),
        {
            f"{prefix}wpe.weight": "replicate",
            f"{layer}ln_*.*": "replicate",
            f"{layer}attn.c_attn.weight": _on(f"fused({into}, {qkv})", tp),
            f"{layer}attn.c_attn.bias": _on(f"fused(0, {qkv})", tp),
            f"{layer}attn.c_proj.weight": _on(f"fused({out}, heads=[{heads}])", tp),
            f"{layer}attn.c_proj.bias": "replicate",
            f"{layer}mlp.c_fc.weight": _on(f"shard({into})", tp),
            f"{layer}mlp.c_fc.bias": _on("shard(0)", tp),
            f"{layer}mlp.c_proj.weight": _on(f"shard({out})", tp),
            f"{layer}mlp.c_proj.bias": "replicate",
        },
    )


def bloom(
    heads: int,
    *,
    tp: str | None = "tp",
    vocabulary: int | None = None,
    tied: bool = True,
    prefix: str = "transformer.",
) -> Rules:
    """Bloom, whose queries, keys and values lie by heads.

    Args:
        heads: Attention heads.
        tp: Axis of tensor parallelism; None if there is none.
        vocabulary: Its size, if embeddings are padded.
        tied: Whether the output layer is the embedding.
        prefix: Before the names of everything but the output layer.

    Returns:
        The rules; see `Rules.limited_to`.
    """
    layer = f"{prefix}h.{{layer}}."
    return _rules(
        _ends(f"{prefix}word_embeddings.weight", f"{prefix}ln_f.*", vocabulary, tied, tp),
        {
            f"{prefix}word_embeddings_layernorm.*": "replicate",
            f"{layer}*layernorm.*": "replicate",
            f"{layer}self_attention.query_key_value.*": _on(f"fused(0, heads=[{heads}])", tp),
            f"{layer}self_attention.dense.weight": _on(f"fused(1, heads=[{heads}])", tp),
            f"{layer}self_attention.dense.bias": "replicate",
            f"{layer}mlp.dense_h_to_4h.*": _on("shard(0)", tp),
            f"{layer}mlp.dense_4h_to_h.weight": _on("shard(1)", tp),
            f"{layer}mlp.dense_4h_to_h.bias": "replicate",
        },
    )


def megatron(
    *, tp: str | None = "tp", swiglu: bool = False, vocabulary: int | None = None
) -> Rules:
    """Megatron-LM, with names of its legacy and of its core models.

    Queries, keys and values lie by groups of heads, which tensor parallelism does not divide.

    Args:
        tp: Axis of tensor parallelism; None if there is none.
        swiglu: Whether gates and values of multi-layer perceptrons are fused.
        vocabulary: Its size, if embeddings are padded.

    Returns:
        The rules; see `Rules.limited_to`.
    """
    rows = _rows(vocabulary, tp)
    up = "fused(0, parts=2)" if swiglu else "shard(0)"
    return _rules(
        {
            "**word_embeddings.weight": rows,
            "**output_layer.weight": rows,
            "**position_embeddings.weight": "replicate",
            "**norm.*": "replicate",
            "**norm_weight": "replicate",
            "**norm_bias": "replicate",
            "**query_key_value.*": _on("shard(0)", tp),
            "**linear_qkv.weight": _on("shard(0)", tp),
            "**linear_qkv.bias": _on("shard(0)", tp),
            "**attention.dense.weight": _on("shard(1)", tp),
            "**attention.dense.bias": "replicate",
            "**linear_proj.weight": _on("shard(1)", tp),
            "**linear_proj.bias": "replicate",
            "**dense_h_to_4h.*": _on(up, tp),
            "**linear_fc1.weight": _on(up, tp),
            "**linear_fc1.bias": _on(up, tp),
            "**dense_4h_to_h.weight": _on("shard(1)", tp),
            "**dense_4h_to_h.bias": "replicate",
            "**linear_fc2.weight": _on("shard(1)", tp),
            "**linear_fc2.bias": "replicate",
        }
    )


def _ends(
    embedding: str, norm: str, vocabulary: int | None, tied: bool, tp: str | None
) -> dict[str, str]:
    """Embedding, last normalisation and output layer."""
    rows = _rows(vocabulary, tp)
    output = f"alias({embedding})" if tied else rows
    return {embedding: rows, norm: "replicate", "lm_head.weight": output}


def _rows(vocabulary: int | None, tp: str | None) -> str:
    """Of embeddings."""
    if vocabulary is None:
        return _on("shard(0)", tp)
    return _then(f"pad(0, logical={vocabulary})", "shard(0)", tp)


def _attention(layer: str, heads: int, kv_heads: int, tp: str | None) -> dict[str, str]:
    """Of the kind that Llama has."""
    return {
        f"{layer}*norm.*": "replicate",
        f"{layer}self_attn.*_norm.*": "replicate",
        f"{layer}self_attn.q_proj.*": _on(f"fused(0, heads=[{heads}])", tp),
        f"{layer}self_attn.k_proj.*": _on(f"fused(0, heads=[{kv_heads}])", tp),
        f"{layer}self_attn.v_proj.*": _on(f"fused(0, heads=[{kv_heads}])", tp),
        f"{layer}self_attn.qkv_proj.*": _on(
            f"fused(0, heads=[{heads}, {kv_heads}, {kv_heads}])", tp
        ),
        f"{layer}self_attn.o_proj.weight": _on(f"fused(1, heads=[{heads}])", tp),
        f"{layer}self_attn.o_proj.bias": "replicate",
    }


def _on(operation: str, axis: str | None) -> str:
    return f"{operation} @{axis}" if axis is not None else "replicate"


def _then(first: str, operation: str, axis: str | None) -> str:
    return f"{first} | {operation} @{axis}" if axis is not None else first


def _rules(*parts: dict[str, str]) -> Rules:
    lines = [f"{pattern} = {steps}" for part in parts for pattern, steps in part.items()]
    return Rules.parse("\n".join(lines))
