"""Bytecode as a control-flow graph, encoded so that layout and line numbers do not show.

The compiler lets line numbers into `co_code`: it keeps a NOP where a line would otherwise
vanish from tracing, threads jumps and fuses instructions only within a line, and copies
short exit blocks. Two texts of one function can so compile to different bytes. What is the
same for all of them is the graph of instructions that do something: jumps and NOPs are
followed through, fused instructions are split, equal tails are merged, and what remains is
numbered in depth-first order from the entry.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from typing import NamedTuple


class Instruction(NamedTuple):
    """One instruction with its extended argument; caches and prefixes are left out."""

    offset: int
    """Where it starts, prefixes included: what a jump to it names."""
    after: int
    """Where the next one starts."""
    opcode: int
    arg: int


_CACHE = 0
_EXTENDED_ARG = dis.EXTENDED_ARG
_JUMPS = frozenset(dis.hasjrel)
_BACKWARD = frozenset(op for op in dis.hasjrel if "BACKWARD" in dis.opname[op])
_SILENT = frozenset(
    dis.opmap[name]
    for name in ("NOP", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
)
_ENDS = frozenset(
    dis.opmap[name]
    for name in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT")
    if name in dis.opmap
)
_LOAD_CONST = dis.opmap["LOAD_CONST"]
_RETURN_VALUE = dis.opmap["RETURN_VALUE"]
_RETURN_CONST = dis.opmap.get("RETURN_CONST", -1)
_FUSED = {
    dis.opmap[fused]: (dis.opmap[first], dis.opmap[second])
    for fused, first, second in (
        ("LOAD_FAST_LOAD_FAST", "LOAD_FAST", "LOAD_FAST"),
        ("STORE_FAST_LOAD_FAST", "STORE_FAST", "LOAD_FAST"),
        ("STORE_FAST_STORE_FAST", "STORE_FAST", "STORE_FAST"),
    )
    if fused in dis.opmap
}


def instructions(code: types.CodeType) -> Iterator[Instruction]:
    """The instructions of `code` in address order, unspecialised."""
    raw = code.co_code
    size = len(raw)
    at = 0
    while at < size:
        start, arg = at, raw[at + 1]
        while raw[at] == _EXTENDED_ARG:
            at += 2
            arg = arg << 8 | raw[at + 1]
        opcode = raw[at]
        at += 2
        while at < size and raw[at] == _CACHE:
            at += 2
        yield Instruction(start, at, opcode, arg)


class _Step(NamedTuple):
    """One node of the graph."""

    opcode: int
    arg: int
    successors: tuple[int, ...]
    """Offsets of what may run next: fall-through first, then the jump target."""
    handler: tuple[int, int]
    """Where an exception goes, and depth with the keep-offset bit; (-1, 0) for out."""


def _targets(step: _Step) -> tuple[int, ...]:
    return step.successors if step.handler[0] < 0 else (*step.successors, step.handler[0])


def flow_encoding(code: types.CodeType) -> str:
    """The control-flow graph of `code` as text; equal iff the graphs are equal.

    Arguments stay indices into the constants and names of `code`, so those have to be
    compared beside it. Opcodes are those of the running Python.
    """
    steps = _steps(code)
    entry = _first_step(steps, 0)
    classes = _merge_tails(steps, entry)
    numbers: dict[int, int] = {}
    pending = [entry]
    while pending:
        at = pending.pop()
        if classes[at] in numbers:
            continue
        numbers[classes[at]] = len(numbers)
        pending.extend(reversed(_targets(steps[at])))
    by_class = {classes[at]: step for at, step in steps.items() if at in classes}
    parts: list[str] = []
    for cls in numbers:
        step = by_class[cls]
        nexts = ",".join(str(numbers[classes[s]]) for s in step.successors)
        target, depth = step.handler
        caught = f"!{numbers[classes[target]]}:{depth}" if target >= 0 else ""
        parts.append(f"{step.opcode} {step.arg} {nexts}{caught}")
    return ";".join(parts)


def _steps(code: types.CodeType) -> dict[int, _Step]:
    """Nodes by offset, silent ones included; the second half of a fused one at offset + 1."""
    ranges = _exception_ranges(code.co_exceptiontable)
    steps: dict[int, _Step] = {}
    for offset, after, opcode, arg in instructions(code):
        handler = (-1, 0)
        for start, end, target, depth in ranges:
            if start <= offset < end:
                handler = (target, depth)
                break
        if opcode == _RETURN_CONST:
            steps[offset] = _Step(_LOAD_CONST, arg, (offset + 1,), handler)
            steps[offset + 1] = _Step(_RETURN_VALUE, 0, (), handler)
        elif opcode in _FUSED:
            first, second = _FUSED[opcode]
            steps[offset] = _Step(first, arg >> 4, (offset + 1,), handler)
            steps[offset + 1] = _Step(second, arg & 15, (after,), handler)
        elif opcode in _JUMPS:
            target = after - 2 * arg if opcode in _BACKWARD else after + 2 * arg
            only = opcode in _SILENT
            steps[offset] = _Step(opcode, 0, (target,) if only else (after, target), handler)
        elif opcode in _ENDS:
            steps[offset] = _Step(opcode, arg, (), handler)
        else:
            steps[offset] = _Step(opcode, arg, (after,), handler)
    heads: dict[int, int] = {}
    for at in steps:
        heads[at] = _first_step(steps, at)
    return {
        at: step._replace(
            successors=tuple(heads[s] for s in step.successors if s in heads),
            handler=(heads[step.handler[0]], step.handler[1]) if step.handler[0] >= 0 else (-1, 0),
        )
        for at, step in steps.items()
    }


def _first_step(steps: dict[int, _Step], at: int) -> int:
    """The first node from `at` on that does something; a silent cycle stands for itself."""
    seen: set[int] = set()
    while steps[at].opcode in _SILENT and at not in seen:
        seen.add(at)
        at = steps[at].successors[0]
    return at if at not in seen else min(seen)


def _merge_tails(steps: dict[int, _Step], entry: int) -> dict[int, int]:
    """A class for each node reachable from `entry`; nodes that go on alike share one.

    One pass in post-order: nodes that only lead to an end are merged fully, those on
    a loop may stay apart, which is right as the compiler copies exits only.
    """
    classes: dict[int, int] = {}
    known: dict[tuple[object, ...], int] = {}
    state: dict[int, bool] = {}
    stack = [entry]
    while stack:
        at = stack[-1]
        step = steps[at]
        targets = _targets(step)
        if at not in state:
            state[at] = False
            stack.extend(t for t in reversed(targets) if t not in state)
            continue
        stack.pop()
        if state[at]:
            continue
        state[at] = True
        key: tuple[object, ...] = (
            step.opcode,
            step.arg,
            tuple(classes.get(t, ("open", t)) for t in targets),
            step.handler[1] if step.handler[0] >= 0 else -1,
        )
        classes[at] = known.setdefault(key, len(known))
    return classes


def _exception_ranges(table: bytes) -> list[tuple[int, int, int, int]]:
    """(start, end, target, depth with keep-offset bit) of an exception table.

    The format is that of `Objects/exception_handling_notes.txt` in CPython.
    """
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    return [
        (2 * start, 2 * (start + length), 2 * target, depth)
        for start, length, target, depth in zip(*[iter(numbers)] * 4, strict=True)
    ]
