"""What a magic does with names, read from the call the input transformation writes.

`%time x = f()` becomes `get_ipython().run_line_magic('time', 'x = f()')`: the names are in
a text. Magics that run Python in the namespace give their text as code, shell magics the
expressions in `{...}` and `$name`, and of all others every identifier counts as read.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from nbrewind.state.evaluators import DYNAMIC_MAGICS, SHELL_CALLS
from nbrewind_analysis.interactive import RAW_TEXT_MAGICS
from nbrewind_analysis.lookups import is_shell


class Run(Enum):
    """How a magic runs its Python code."""

    ONCE = "once"
    """In the namespace, exactly once."""
    MAYBE = "maybe"
    """In the namespace, perhaps not to its end."""
    INNER = "inner"
    """As the body of a function: names it stores are local."""


@dataclass(frozen=True, slots=True)
class Magic:
    """What one magic reads, runs and stores."""

    code: tuple[tuple[str, Run], ...] = ()
    """Python texts in the order they run."""
    expressions: tuple[str, ...] = ()
    """Texts of `{...}` and `$name` in its arguments."""
    texts: tuple[str, ...] = ()
    """Texts any identifier of which may be looked up."""
    stores: tuple[str, ...] = ()
    """Names its options ask it to set."""
    everything: bool = False
    """It may read or write any name."""
    raw_text: bool = False
    """It shows source text."""


_PYTHON = {
    "time": (Run.ONCE, ""),
    "capture": (Run.ONCE, ""),
    "debug": (Run.MAYBE, "b"),
    "prun": (Run.MAYBE, "DlsT"),
    "memit": (Run.MAYBE, "rti"),
    "mprun": (Run.MAYBE, "Tf"),
    "lprun": (Run.MAYBE, "fmDTu"),
    "timeit": (Run.INNER, "nrpv"),
}
"""Magics that run Python in the namespace, and their options that take a value."""

_TRANSPARENT = frozenset({"time", "capture", "timeit", "torchrun"})
"""Cell magics for which formatting and comments of their code make no difference."""

_PLAIN = frozenset(
    {
        *("matplotlib", "load_ext", "reload_ext", "unload_ext", "autoreload", "config", "gui"),
        *("cd", "pwd", "ls", "ll", "mkdir", "rmdir", "cat", "cp", "mv", "rm", "env", "set_env"),
        *("pip", "conda", "mamba", "micromamba", "uv", "precision", "colors", "xmode", "lsmagic"),
        *("alias", "unalias", "aimport", "magic", "quickref", "tensorboard", "watermark", "pprint"),
        *("html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG", "writefile"),
        *("bash", "sh", "script", "perl", "ruby", "python", "python2", "python3", "pypy", "cmd"),
        *("sx", "sc", "system", "bg", "killbgscripts", "doctest_mode", "automagic", "rehashx"),
        *("pushd", "popd", "dirs", "dhist", "bookmark", "logstart", "logstop", "sql_magic"),
    }
)
"""Magics whose text names no variable outside `{...}` and `$name`."""

_SCRIPTS = frozenset({"bash", "sh", "script", "sx", "system", "!", "cmd"})
"""Cell magics in whose body `{...}` and `$name` are looked for too."""

_STORE_OPTIONS = re.compile(r"(?:^|\s)(?:-o|--output|--out|--err|--proc)[=\s]+([\w,]+)")
_TARGET = re.compile(r"^\s*(\w+)\s*<<")
_INTERPOLATION = re.compile(r"\$(?P<name>[^\W\d]\w*)|\{(?P<expr>[^{}]+)\}")


def magic_of(call: ast.Call) -> Magic | None:
    """What `call` does if it is a magic written by the input transformation, else None."""
    func = call.func
    if not (isinstance(func, ast.Attribute) and func.attr in SHELL_CALLS and is_shell(func.value)):
        return None
    texts = [
        arg.value
        for arg in call.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    ]
    if len(texts) != len(call.args) or not texts:
        return Magic(everything=True)
    match func.attr, texts:
        case "run_line_magic", [name, line]:
            return _line_magic(name, line)
        case "run_cell_magic", [name, line, body]:
            return _cell_magic(name, line, body)
        case "system", [command]:
            return Magic(expressions=interpolations(command), stores=("_exit_code",))
        case "getoutput", [command]:
            return Magic(expressions=interpolations(command))
        case _:
            return Magic(texts=tuple(texts))


def magic_body(call: ast.Call) -> str | None:
    """The code of a cell magic that does nothing but run it, such as `%%time`; else None."""
    func = call.func
    if not (isinstance(func, ast.Attribute) and func.attr == "run_cell_magic"):
        return None
    match call.args:
        case [ast.Constant(value=name), ast.Constant(value=str()), ast.Constant(value=str(body))]:
            return body if name in _TRANSPARENT else None
    return None


def parse_text(text: str, transform: Callable[[str], str]) -> ast.Module | None:
    """Parse code found in a text, transformed only if it is no Python as it stands."""
    for change in (None, transform):
        try:
            return ast.parse(text.strip("\n") if change is None else change(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def interpolations(text: str) -> tuple[str, ...]:
    """Expressions that IPython puts values in for: `$name` and `{expression}`."""
    return tuple(m["name"] or m["expr"] for m in _INTERPOLATION.finditer(text))


def _line_magic(name: str, line: str) -> Magic:
    if name in DYNAMIC_MAGICS:
        return Magic(everything=True, raw_text=name in RAW_TEXT_MAGICS)
    if name in _PYTHON:
        run, valued = _PYTHON[name]
        code, values = _split_options(line, valued)
        return Magic(code=((code, run),), texts=values, expressions=interpolations(line))
    if name in RAW_TEXT_MAGICS:
        return Magic(texts=(line,), raw_text=True)
    if name in _PLAIN:
        return Magic(expressions=interpolations(line))
    return Magic(texts=(line,), stores=_stored(line))


def _cell_magic(name: str, line: str, body: str) -> Magic:
    if name in DYNAMIC_MAGICS:
        return Magic(everything=True)
    if name == "capture":
        words = [word for word in _words(line) if not word.startswith("-")]
        return Magic(code=((body, Run.ONCE),), stores=tuple(words[:1]))
    if name == "timeit":
        setup, values = _split_options(line, _PYTHON[name][1])
        return Magic(code=((f"{setup}\n{body}", Run.INNER),), texts=values)
    if name == "torchrun":
        # What a rank cannot send back is not stored.
        return Magic(code=((body, Run.MAYBE),), expressions=interpolations(line))
    if name in _PYTHON:
        run, valued = _PYTHON[name]
        code, values = _split_options(line, valued)
        return Magic(code=((code, run), (body, run)), texts=values)
    if name in _PLAIN or name in _SCRIPTS:
        inside = interpolations(body) if name in _SCRIPTS else ()
        return Magic(expressions=interpolations(line) + inside, stores=_stored(line))
    return Magic(texts=(line, body), stores=_stored(line), raw_text=name in RAW_TEXT_MAGICS)


def _split_options(line: str, valued: str) -> tuple[str, tuple[str, ...]]:
    """The code after the leading options of `line`, and the functions they name."""
    values: list[str] = []
    rest = line.lstrip()
    while option := re.match(r"--?([A-Za-z][\w-]*)\s*", rest):
        word = option[1]
        rest = rest[option.end() :]
        if len(word) == 1 and word in valued and (value := re.match(r"(\S+)\s*", rest)):
            if word == "f":
                values.append(value[1])
            rest = rest[value.end() :]
    return rest, tuple(values)


def _stored(line: str) -> tuple[str, ...]:
    """Names that options such as `-o df` or `df <<` ask a magic to set."""
    names = [n for group in _STORE_OPTIONS.findall(line) for n in group.split(",") if n]
    if target := _TARGET.match(line):
        names.append(target[1])
    return tuple(names)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
