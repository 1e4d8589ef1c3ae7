"""The text form of mapping rules, written."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any

from nbrewind.training.rules.operations import Operation, Step
from nbrewind.training.rules.ruleset import Rules

_WORD = re.compile(r"""(?:[^\s=|()\[\],@"#\\]|\\\S)+""")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def printed(rules: Rules) -> str:
    """One line for each rule; reading it gives the same rules."""
    patterns = [_word(rule.pattern.text) for rule in rules.rules]
    width = max((len(pattern) for pattern in patterns if len(pattern) <= 48), default=0)
    lines = [
        f"{pattern:{width}} = {' | '.join(map(_step, rule.steps))}\n"
        for pattern, rule in zip(patterns, rules.rules, strict=True)
    ]
    return "".join(lines)


def _step(step: Step) -> str:
    axes = ""
    if step.axes:
        joined = "*".join(step.axes)
        plain = len(step.axes) > 1 or "*" not in joined
        axes = f" @{_word(joined) if plain else _string(joined)}"
    return _operation(step.operation) + axes


def _operation(operation: Operation) -> str:
    shown = []
    in_order = True
    for each in fields(operation):
        value = getattr(operation, each.name)
        if each.default is not MISSING and value == each.default:
            in_order = False
            continue
        bare = in_order and each.default is MISSING
        shown.append(_value(value) if bare else f"{each.name}={_value(value)}")
        in_order = bare
    return operation.name + (f"({', '.join(shown)})" if shown else "")


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return _word(value) if isinstance(value, str) else repr(value)


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) else _string(text)


def _string(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c, c) for c in text) + '"'
