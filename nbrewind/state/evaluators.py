"""Which names make code read variables that it does not name.

Bytecode and AST show the names code loads. Some callables find further ones: `globals()`
reaches every name, `df.query("n == @foo")` those in its text. Both the analysis of cells and
that of code objects go by the sets below. A false entry costs an unneeded execution, a
missing one a stale result, so names are added when in doubt.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

NAMESPACE_NAMES = frozenset({"globals"})
"""Builtins that reach every global wherever they are called."""

LOCAL_NAMESPACE_NAMES = frozenset({"locals", "vars", "dir"})
"""Builtins that reach every global only at module level."""

EXECUTORS = frozenset({"eval", "exec"})
"""Builtins that run a text in the namespace: any name, unless the text is known."""

NAMESPACE_ATTRIBUTES = frozenset(
    {
        "user_ns",
        "user_global_ns",
        "f_globals",
        "f_locals",
        "f_builtins",
        "__globals__",
        "run_cell",
        "run_cell_async",
        "run_code",
        "runcode",
        "dump_session",
        "load_session",
        "dump_module",
        "load_module_asdict",
    }
)
"""Attributes through which every global can be reached."""

MAIN_MODULE = "__main__"
"""Importing the notebook's own module, or naming it in a text, reaches every global."""

EVALUATORS = frozenset(
    {
        *("eval", "exec", "query", "evaluate", "runctx"),
        *("sql", "sqldf", "execute", "read_sql", "from_query"),
        *("timeit", "repeat", "Timer"),
        *("ols", "glm", "gls", "wls", "rlm", "gee", "logit", "probit", "mnlogit", "poisson"),
        *("negativebinomial", "mixedlm", "quantreg", "phreg", "ordinal_gee", "nominal_gee"),
        *("conditional_logit", "from_formula", "dmatrix", "dmatrices", "model_matrix"),
        *("feols", "fepois", "feglm", "lmer", "glmer", "Formula", "anova_lm"),
        *("run_line_magic", "run_cell_magic", "system", "getoutput"),
    }
)
"""Callables that look up variables named in their text arguments."""

EVALUATOR_MODULES = frozenset({"duckdb", "pandasql", "cProfile", "line_profiler"})
"""Modules most of whose functions are evaluators."""

SHELL_CALLS = frozenset({"run_line_magic", "run_cell_magic", "system", "getoutput"})
"""Methods of the IPython shell that the input transformation writes for magics."""

DYNAMIC_MAGICS = frozenset(
    {
        *("run", "rerun", "recall", "rep", "load", "loadpy", "edit", "ed", "macro", "reset"),
        *(
            "reset_selective",
            "xdel",
            "who",
            "who_ls",
            "whos",
            "store",
            "pylab",
            "notebook",
            "psearch",
        ),
    }
)
"""Magics that may read or write any variable."""

_IDENTIFIER = re.compile(r"[^\W\d]\w*")


def identifiers(texts: Iterable[str]) -> frozenset[str]:
    """Everything in `texts` that could name a variable."""
    found: set[str] = set()
    for text in texts:
        found.update(_IDENTIFIER.findall(text))
    return frozenset(name for name in found if not keyword.iskeyword(name))
