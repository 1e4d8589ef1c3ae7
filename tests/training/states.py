"""Small states, and whether two of them are equal bit for bit."""

from __future__ import annotations

from typing import Any

import torch


def equal(one: Any, other: Any) -> bool:
    """Equal in structure, type and every bit."""
    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and one.detach().numpy(force=True).tobytes()
            == other.detach().numpy(force=True).tobytes()
            if one.dtype not in (torch.bfloat16,)
            else isinstance(other, torch.Tensor) and bool(torch.equal(one, other))
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def network(seed: int = 0) -> torch.nn.Module:
    """Linear layers, normalisation with buffers, and tied weights."""
    torch.manual_seed(seed)

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(40, 16)
            self.wide = torch.nn.Linear(16, 300)
            self.norm = torch.nn.BatchNorm1d(300)
            self.back = torch.nn.Linear(300, 16)
            self.head = torch.nn.Linear(16, 40, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.back(self.norm(self.wide(self.embed(tokens))).relu()))

    return Network()


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int) -> float:
    """Some steps; returns the last loss."""
    generator = torch.Generator().manual_seed(seed)
    loss = torch.zeros(())
    for _ in range(steps):
        tokens = torch.randint(0, 40, (8,), generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens), tokens.roll(1))
        loss.backward()
        optimizer.step()
    return float(loss.detach())
