"""Trains with DeepSpeed for three steps and saves; run by torchrun in DeepSpeed's environment.

Arguments: stage of ZeRO, folder, type of numbers.
"""

from __future__ import annotations

import sys

import deepspeed  # type: ignore[import-not-found]
import torch
from torch import nn

stage, folder, kind = int(sys.argv[1]), sys.argv[2], sys.argv[3]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(7, 5)
        self.frozen = nn.Linear(5, 3, bias=False)
        self.b = nn.Linear(3, 11)
        self.scale = nn.Parameter(torch.tensor([1.5]))
        self.register_buffer("seen", torch.arange(4))
        self.frozen.weight.requires_grad_(False)
        self.tied = self.b

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.tied(self.frozen(self.a(x))) * self.scale).sum()


torch.manual_seed(0)
net = Net()
trained = [p for p in net.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(
    [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ],
    lr=1e-2,
)
engine, *_ = deepspeed.initialize(
    model=net,
    optimizer=optimizer,
    config={
        "train_micro_batch_size_per_gpu": 2,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": kind == "bfloat16"},
        "zero_optimization": {
            "stage": stage,
            "sub_group_size": 10,  # several groups of parameters with ZeRO 3
            "stage3_param_persistence_threshold": 0,
        },
    },
)
for step in range(3):
    torch.manual_seed(10 * step + torch.distributed.get_rank())
    loss = engine(torch.randn(2, 7).to(getattr(torch, kind)))
    engine.backward(loss)
    engine.step()
engine.save_checkpoint(folder)
