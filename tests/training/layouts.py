"""A small GPT and a small mixture of experts, on ranks in every layout of training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional as F

DIM, HEADS, KV_HEADS, LAYERS, VOCABULARY = 48, 4, 2, 4, 50
HEAD = DIM // HEADS


class Attention(nn.Module):
    """Grouped queries."""

    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(DIM, HEADS * HEAD, bias=False)
        self.wk = nn.Linear(DIM, KV_HEADS * HEAD, bias=False)
        self.wv = nn.Linear(DIM, KV_HEADS * HEAD, bias=False)
        self.wo = nn.Linear(HEADS * HEAD, DIM, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, -1, HEAD) for w in (self.wq, self.wk, self.wv))
        k, v = (each.repeat_interleave(q.shape[2] // k.shape[2], 2) for each in (k, v))
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class SwiGLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(DIM, 100, bias=False)
        self.w3 = nn.Linear(DIM, 100, bias=False)
        self.w2 = nn.Linear(100, DIM, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Experts(nn.Module):
    """All tokens to all experts, weighted: enough to train every expert."""

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(DIM, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, DIM, 32) * 0.1)
        self.down = nn.Parameter(torch.randn(count, 32, DIM) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.router(x).softmax(-1)
        hidden = torch.einsum("bld,edh->eblh", x, self.up).relu()
        return torch.einsum("eblh,ehd,ble->bld", hidden, self.down, weights)


class Block(nn.Module):
    def __init__(self, experts: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attention = Attention()
        self.feed = Experts() if experts else SwiGLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    """The layers `first` to `last`; the embedding is tied to the output."""

    def __init__(self, *, experts: bool = False, first: int = 0, last: int = LAYERS) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [Block(experts) for _ in range(LAYERS)]
        embed = nn.Embedding(VOCABULARY + 6, DIM)  # padded for tensor parallelism
        self.layers = nn.ModuleDict({str(i): layers[i] for i in range(first, last)})
        if first == 0 or last == LAYERS:
            self.embed = embed
        if last == LAYERS:
            self.norm = nn.LayerNorm(DIM)
            self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
            self.register_buffer("mask", torch.ones(3), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers.values():
            x = layer(x)
        weight = self.embed.weight
        if isinstance(weight, DTensor):
            weight = weight.full_tensor()
        return F.linear(self.norm(x), weight)[..., :VOCABULARY]


@dataclass(frozen=True)
class Layout:
    """How a model lies on ranks."""

    world: int
    build: Callable[[int], nn.Module]
    experts: bool = False


def _mesh(**dims: int) -> Any:
    return init_device_mesh("cpu", tuple(dims.values()), mesh_dim_names=tuple(dims))


def _tensor_parallel(model: GPT, mesh: Any) -> None:
    for layer in model.layers.values():
        plan: dict[str, Any] = {
            "attention.wq": ColwiseParallel(),
            "attention.wk": ColwiseParallel(),
            "attention.wv": ColwiseParallel(),
            "attention.wo": RowwiseParallel(),
            "feed.w1": ColwiseParallel(),
            "feed.w3": ColwiseParallel(),
            "feed.w2": RowwiseParallel(),
        }
        parallelize_module(layer, mesh, plan)


def _plain(rank: int, experts: bool = False) -> nn.Module:
    return GPT(experts=experts)


def _data_parallel(rank: int) -> nn.Module:
    return nn.parallel.DistributedDataParallel(GPT())


def _tp(rank: int) -> nn.Module:
    model = GPT()
    _tensor_parallel(model, _mesh(tp=dist.get_world_size()))
    return model


def _stage(stage: int, stages: int) -> GPT:
    share = LAYERS // stages
    return GPT(first=stage * share, last=(stage + 1) * share)


def _pp(rank: int) -> nn.Module:
    return _stage(rank, dist.get_world_size())


def _tp_dp(rank: int) -> nn.Module:
    """FSDP over tensor parallel: shards of shards of the same dimension."""
    mesh = _mesh(dp=2, tp=2)
    model = GPT()
    _tensor_parallel(model, mesh["tp"])
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh["dp"])
    return fully_shard(model, mesh=mesh["dp"])


def _fsdp(rank: int) -> nn.Module:
    mesh = _mesh(dp=dist.get_world_size())
    model = GPT()
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _tp_pp(rank: int) -> nn.Module:
    mesh = _mesh(pp=2, tp=2)
    model = _stage(mesh.get_coordinate()[0], 2)
    _tensor_parallel(model, mesh["tp"])
    return model


def _hybrid(rank: int) -> nn.Module:
    mesh = _mesh(replicate=2, shard=2)
    return fully_shard(GPT(), mesh=mesh)


def _ep(rank: int) -> nn.Module:
    """Experts shared out, the rest replicated."""
    mesh = _mesh(ep=dist.get_world_size())
    model = GPT(experts=True)
    for module in model.modules():
        if isinstance(module, Experts):
            for name in ("up", "down"):
                whole = getattr(module, name).detach()
                setattr(module, name, nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)])))
    return model


LAYOUTS = {
    "1": Layout(1, _plain),
    "DP2": Layout(2, _data_parallel),
    "DP3": Layout(3, _data_parallel),
    "TP2": Layout(2, _tp),
    "TP4": Layout(4, _tp),
    "PP2": Layout(2, _pp),
    "TP2xDP2": Layout(4, _tp_dp),
    "FSDP2x2": Layout(2, _fsdp),
    "FSDP2x3": Layout(3, _fsdp),
    "FSDP2x4": Layout(4, _fsdp),
    "HSDP2x2": Layout(4, _hybrid),
    "TP2xPP2": Layout(4, _tp_pp),
    "CP2": Layout(2, _data_parallel),
    "MoE 1": Layout(1, lambda rank: _plain(rank, experts=True), experts=True),
    "MoE EP2": Layout(2, _ep, experts=True),
    "MoE EP4": Layout(4, _ep, experts=True),
    "MoE DP2": Layout(
        2, lambda rank: nn.parallel.DistributedDataParallel(GPT(experts=True)), experts=True
    ),
}


def reference(experts: bool) -> tuple[dict[str, torch.Tensor], dict[str, dict[str, torch.Tensor]]]:
    """Tensors of a model and of AdamW's state by parameter, after some imagined training."""
    model = GPT(experts=experts)
    generator = torch.Generator().manual_seed(7)
    values = {
        name: torch.randn(value.shape, generator=generator)
        if value.is_floating_point()
        else torch.full_like(value, 11)
        for name, value in model.state_dict().items()
    }
    moments = {
        name: {
            "step": torch.tensor(3.0),
            "exp_avg": torch.randn(value.shape, generator=generator),
            "exp_avg_sq": torch.rand(value.shape, generator=generator),
        }
        for name, value in model.named_parameters()
    }
    return values, moments


def names(model: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters by the names they have without wrappers."""
    return {name.removeprefix("module."): p for name, p in model.named_parameters()}


def spread(whole: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A whole tensor in the layout of another."""
    if isinstance(like, DTensor) and whole.shape == like.shape:
        return distribute_tensor(whole.clone(), like.device_mesh, like.placements)
    return whole.clone()


def set_to_reference(model: nn.Module, optimizer: torch.optim.Optimizer, experts: bool) -> None:
    """What torch itself makes of the reference in this layout."""
    values, moments = reference(experts)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            whole = values[name.removeprefix("module.")]
            value.copy_(spread(whole, value))
    for name, parameter in names(model).items():
        optimizer.state[parameter] = {
            key: spread(value, parameter) for key, value in moments[name].items()
        }


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor, on every rank."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def differences(model: nn.Module, optimizer: torch.optim.Optimizer, experts: bool) -> list[str]:
    """What is not as in the reference, bit for bit."""
    values, moments = reference(experts)
    wrong = [
        name
        for name, value in model.state_dict().items()
        if not torch.equal(whole(value.detach()), values[name.removeprefix("module.")])
    ]
    for name, parameter in names(model).items():
        state: Mapping[str, torch.Tensor] = optimizer.state[parameter]
        if state.keys() != moments[name].keys():
            wrong.append(f"{name}: {[*state]}")
            continue
        wrong += [
            f"{name}.{key}"
            for key, value in state.items()
            if not torch.equal(whole(value), moments[name][key])
        ]
        if isinstance(parameter, DTensor):
            moment = state["exp_avg"]
            if not isinstance(moment, DTensor) or moment.placements != parameter.placements:
                wrong.append(f"{name}: the moments lie in another way")
    return wrong
