"""Mapping rules: what a layout of training did to tensors, so that any other layout can load them.

Rules are read from a text (`Rules.parse`), made by a preset (`nbrewind.training.rules.presets`) or
inferred from DTensor placements (`nbrewind.training.rules.placements`), checked against names
(`Rules.check`) and compiled to mappings (`Rules.compile`): lists of pieces. After that everything
is intersection of boxes. Nothing here but `placements` needs torch.
"""

from __future__ import annotations

from nbrewind.training.rules.checking import Report
from nbrewind.training.rules.inheriting import inherited
from nbrewind.training.rules.mappings import ExpertOf, Mapping, View, Window
from nbrewind.training.rules.meshes import Mesh
from nbrewind.training.rules.operations import (
    Alias,
    Average,
    Expert,
    Flat,
    Fused,
    Interleave,
    Pad,
    PerRank,
    Replicate,
    Shard,
    Step,
    Transpose,
)
from nbrewind.training.rules.patterns import Pattern
from nbrewind.training.rules.rule import Rule
from nbrewind.training.rules.ruleset import Rules

__all__ = [
    "Alias",
    "Average",
    "Expert",
    "ExpertOf",
    "Flat",
    "Fused",
    "Interleave",
    "Mapping",
    "Mesh",
    "Pad",
    "Pattern",
    "PerRank",
    "Replicate",
    "Report",
    "Rule",
    "Rules",
    "Shard",
    "Step",
    "Transpose",
    "View",
    "Window",
    "inherited",
]
