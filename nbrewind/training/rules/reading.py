"""The text form of mapping rules, read.

```
rules   = { rule end }                end = a new line or the end of the text
rule    = pattern "=" step { "|" step }
step    = name [ "(" [ argument { "," argument } ] ")" ] [ "@" axis { "*" axis } ]
argument= [ name "=" ] value
value   = word | string | "[" [ value { "," value } ] "]"
```

`#` begins a comment. Lines go on within brackets, and after and before `|`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nbrewind.errors import RuleError
from nbrewind.training.rules.operations import OPERATIONS, Operation, Step, arguments
from nbrewind.training.rules.patterns import Pattern
from nbrewind.training.rules.rule import Rule
from nbrewind.training.rules.ruleset import Rules
from nbrewind.training.rules.suggestions import suggestion

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)|(?P<end>\n)|(?P<mark>[=|()\[\],@])"""
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<word>(?:[^\s=|()\[\],@"\#\\]|\\\S)+)"""
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """`word`, `string`, `end`, or the mark itself."""
    text: str
    at: int

    def __str__(self) -> str:
        return "the end of the line" if self.kind == "end" else repr(self.text)


def parse(text: str) -> Rules:
    """Read rules.

    Raises:
        RuleError: with line and column, and what may have been meant.
    """
    return _Reader(text).rules()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._lexed())
        self._at = 0

    def rules(self) -> Rules:
        found = []
        seen: dict[str, _Token] = {}
        while self._peek().kind != "":
            if self._peek().kind == "end":
                self._at += 1
                continue
            first = self._peek()
            rule = self._rule()
            if rule.pattern.text in seen:
                raise self._error(first, f"there is a rule for {rule.pattern.text} already")
            seen[rule.pattern.text] = first
            found.append(rule)
        return Rules(tuple(found))

    def _rule(self) -> Rule:
        token = self._next("word", "string", expected="a pattern")
        try:
            pattern = Pattern(token.text)
        except ValueError as exc:
            raise self._error(token, str(exc)) from exc
        self._next("=", expected="= after the pattern")
        steps = [self._step()]
        while self._continues():
            steps.append(self._step())
        following = self._peek()
        if following.kind not in ("end", ""):
            raise self._error(following, f"expected | or the end of the line, not {following}")
        try:
            return Rule(pattern, tuple(steps))
        except ValueError as exc:
            raise self._error(token, str(exc)) from exc

    def _continues(self) -> bool:
        """Go over a `|`, and new lines around it, if there is one."""
        ahead = self._at
        while self._tokens[ahead].kind == "end":
            ahead += 1
        if self._tokens[ahead].kind != "|":
            return False
        self._at = ahead + 1
        self._skip_ends()
        return True

    def _step(self) -> Step:
        self._skip_ends()
        token = self._next("word", expected="an operation")
        kind = OPERATIONS.get(token.text)
        if kind is None:
            raise self._error(
                token,
                f"there is no operation {token.text}"
                + (suggestion(token.text, OPERATIONS) or f": there are {', '.join(OPERATIONS)}"),
            )
        given = self._arguments(kind) if self._peek().kind == "(" else {}
        needed = _needed(kind)
        for name in needed:
            if name not in given:
                raise self._error(token, f"{kind.name} needs {name}")
        axes: tuple[str, ...] = ()
        if self._peek().kind == "@":
            self._at += 1
            word = self._next("word", "string", expected="an axis of the mesh")
            axes = tuple(word.text.split("*")) if word.kind == "word" else (word.text,)
            if "" in axes:
                raise self._error(word, f"{word.text} is no product of axes like dp*cp")
        try:
            return Step(kind(**given), axes)
        except ValueError as exc:
            raise self._error(token, str(exc)) from exc

    def _arguments(self, kind: type[Operation]) -> dict[str, Any]:
        known = arguments(kind)
        given: dict[str, Any] = {}
        by_name = False
        self._at += 1
        self._skip_ends()
        while self._peek().kind != ")":
            token = self._peek()
            if self._tokens[self._at + 1].kind == "=":
                name = self._next("word", expected="the name of an argument").text
                self._at += 1
                by_name = True
                if name not in known:
                    raise self._error(
                        token,
                        f"{kind.name} has no argument {name}"
                        + (suggestion(name, known) or f": it has {', '.join(known) or 'none'}"),
                    )
            elif by_name:
                raise self._error(token, "after an argument with a name all need one")
            elif len(given) == len(known):
                raise self._error(token, f"{kind.name} has only {len(known)} arguments")
            else:
                name = [*known][len(given)]
            if name in given:
                raise self._error(token, f"{name} is given twice")
            self._skip_ends()
            given[name] = self._value(name, known[name])
            self._skip_ends()
            if self._peek().kind != ")":
                self._next(",", expected=", or )")
                self._skip_ends()
        self._at += 1
        return given

    def _value(self, name: str, known: dict[str, Any]) -> Any:
        kind, words = known["kind"], known["words"]
        token = self._peek()
        if token.kind == "[":
            if kind not in ("integers", "names"):
                raise self._error(token, f"{name} is one value, not a list")
            one = "integer" if kind == "integers" else "name"
            return tuple(self._value(name, {"kind": one, "words": ()}) for _ in self._listed())
        token = self._next("word", "string", expected=f"a value for {name}")
        if kind == "integers":
            raise self._error(token, f"{name} is a list like [2, 1, 1]")
        if kind == "integer":
            if token.kind == "word" and re.fullmatch(r"-?\d+", token.text, re.ASCII):
                return int(token.text)
            raise self._error(token, f"{name} is a whole number, not {token}")
        if kind == "number":
            try:
                return float(token.text)
            except ValueError as exc:
                raise self._error(token, f"{name} is a number, not {token}") from exc
        if words and token.text not in words:
            choice = f"{name} is {' or '.join(words)}, not {token}"
            raise self._error(token, choice + suggestion(token.text, words))
        return token.text

    def _listed(self) -> Iterator[None]:
        """Stop before each value of a list; whoever iterates takes it."""
        self._at += 1
        self._skip_ends()
        while self._peek().kind != "]":
            yield
            self._skip_ends()
            if self._peek().kind != "]":
                self._next(",", expected=", or ]")
                self._skip_ends()
        self._at += 1

    def _skip_ends(self) -> None:
        while self._peek().kind == "end":
            self._at += 1

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self, *kinds: str, expected: str) -> _Token:
        token = self._peek()
        if token.kind not in kinds:
            found = str(token) if token.kind else "the end of the text"
            raise self._error(token, f"expected {expected}, not {found}")
        self._at += 1
        return token

    def _lexed(self) -> Iterator[_Token]:
        at = 0
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            if found is None:
                token = _Token("", self._text[at], at)
                if self._text[at] == '"':
                    raise self._error(token, "a string has no end on its line")
                raise self._error(token, f"{self._text[at]!r} does not belong here")
            kind = found.lastgroup or ""
            if kind == "string":
                quoted = re.sub(
                    r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), found[0][1:-1], flags=re.S
                )
                yield _Token("string", quoted, at)
            elif kind != "space":
                yield _Token(found[0] if kind == "mark" else kind, found[0], at)
            at = found.end()
        yield _Token("end", "", at)
        yield _Token("", "", at)

    def _error(self, token: _Token, problem: str) -> RuleError:
        line = self._text.count("\n", 0, token.at) + 1
        column = token.at - (self._text.rfind("\n", 0, token.at) + 1) + 1
        return RuleError(f"line {line}, column {column}: {problem}")


def _needed(kind: type[Operation]) -> list[str]:
    from dataclasses import MISSING, fields

    return [each.name for each in fields(kind) if each.default is MISSING]
