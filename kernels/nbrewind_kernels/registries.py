"""Cheap digests of what a cell may change inside IPython.

A cell that registers a magic, an alias, an input transformer or a formatter
changes how later cells run without touching a name. Comparing these digests
before and after a cell shows it. What a library registers when it is imported
is left out: importing it again brings that back.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Set
from types import FunctionType, MethodType
from typing import Any

from IPython.core.alias import Alias
from IPython.core.magic import MagicAlias

from nbrewind.state.entities import MAIN

_BY_IMPORT = ("matplotlib", "IPython", "ipykernel", "nbrewind")
"""Packages whose own registrations come with their import."""


_OURS = {signal.SIGINT}
"""ipykernel exchanges its handler around each cell, and so do we."""


def registry_digests(shell: Any) -> Mapping[str, int | str]:
    """One digest per registry; equal within this process means unchanged."""
    magics = shell.magics_manager.magics
    manager = shell.input_transformer_manager
    return {
        "line-magics": _magics(magics["line"]),
        "cell-magics": _magics(magics["cell"]),
        "input-transformers": _identities(
            [*manager.cleanup_transforms, *manager.line_transforms, *manager.token_transformers]
        ),
        "post-transformers": _identities(shell.input_transformers_post),
        "ast-transformers": _identities(shell.ast_transformers),
        "events": hash(
            tuple(
                (event, _identities([c for c in callbacks if not _comes_by_import(c)]))
                for event, callbacks in sorted(shell.events.callbacks.items())
            )
        ),
        "extensions": ",".join(sorted(shell.extension_manager.loaded)),
        "formatters": _formatters(shell.display_formatter),
        "inline-figures": _inline_figures(),
        "hooks": _entries({k: v for k, v in shell.hooks.items() if not k.startswith("_")}),
        "signals": _identities(
            [signal.getsignal(s) for s in sorted(signal.valid_signals() - _OURS)]
        ),
        "exceptions": _identities(shell.custom_exceptions),
        "settings": repr(
            (
                shell.ast_node_interactivity,
                shell.autoawait,
                shell.autocall,
                shell.automagic,
                shell.call_pdb,
                getattr(shell.InteractiveTB, "mode", ""),
            )
        ),
    }


def own_magics(shell: Any, names: Set[str]) -> list[object]:
    """Functions and methods of the notebook, and aliases, behind magics of some names."""
    registries = shell.magics_manager.magics.values()
    found = [registry.get(name) for registry in registries for name in sorted(names)]
    return [thing for thing in found if _may_be_of_notebook(thing)]


def own_hooks(shell: Any) -> list[FunctionType]:
    """Functions of the notebook that IPython calls around or on every cell."""
    manager = shell.input_transformer_manager
    hooks = [
        *(callback for callbacks in shell.events.callbacks.values() for callback in callbacks),
        *(*manager.cleanup_transforms, *manager.line_transforms, *shell.input_transformers_post),
    ]
    return [
        hook
        for hook in hooks
        if isinstance(hook, FunctionType) and hook.__globals__.get("__name__") == MAIN
    ]


def _may_be_of_notebook(thing: object) -> bool:
    if isinstance(thing, FunctionType):
        return thing.__globals__.get("__name__") == MAIN
    if isinstance(thing, MethodType):
        return type(thing.__self__).__module__ == MAIN
    return isinstance(thing, Alias | MagicAlias)


def _magics(registry: Mapping[str, Any]) -> int:
    return hash(frozenset((name, _magic(thing)) for name, thing in registry.items()))


def _magic(thing: Any) -> object:
    """IPython's own magics count by name: it puts the real one in place of a lazy one when used."""
    if isinstance(thing, Alias):
        return thing.cmd
    if isinstance(thing, MagicAlias):
        return thing.magic_name, thing.magic_params
    owner = thing.__self__ if isinstance(thing, MethodType) else thing
    if isinstance(thing, FunctionType):  # `%%bash` and its like are such
        return 0 if _comes_by_import(thing) else id(thing)
    return 0 if type(owner).__module__.startswith(_BY_IMPORT) else _identity(thing)


def _entries(registry: Mapping[str, Any]) -> int:
    """Keys and the identities of what they stand for; the registry keeps both alive."""
    return hash(frozenset((key, _identity(value)) for key, value in registry.items()))


def _identities(things: Any) -> int:
    return hash(tuple(_identity(thing) for thing in things))


def _identity(thing: Any) -> object:
    """Bound methods are made anew at each access: their parts identify them.

    Nothing else is asked for an attribute: a magic that IPython has not loaded yet
    would import its module.
    """
    if isinstance(thing, MethodType):
        return (id(thing.__func__), id(thing.__self__))
    return id(thing)


def _comes_by_import(thing: Any) -> bool:
    module = getattr(thing, "__module__", None) or type(thing).__module__
    return isinstance(module, str) and module.split(".")[0].startswith(_BY_IMPORT)


def _formatters(display_formatter: Any) -> int:
    parts: list[object] = []
    for mimetype, formatter in sorted(display_formatter.formatters.items()):
        parts.append((mimetype, formatter.enabled))
        # A printer registered by name moves over to the types once such a value is shown.
        by_type = [
            ((kind.__module__, kind.__name__), printer)
            for kind, printer in formatter.type_printers.items()
            if not _comes_by_import(kind)
        ]
        by_name = [
            (key, printer)
            for key, printer in formatter.deferred_printers.items()
            if not str(key[0]).startswith(_BY_IMPORT)
        ]
        parts.append(frozenset((key, _identity(value)) for key, value in (*by_type, *by_name)))
        parts.append(len(formatter.singleton_printers))
    plain = display_formatter.formatters.get("text/plain")
    if plain is not None:
        parts.append((plain.float_precision, plain.pprint, plain.max_width))
        parts.append(plain.max_seq_length)
    return hash(tuple(parts))


def _inline_figures() -> str:
    """How matplotlib's inline backend shows figures; its defaults if it is not in use yet."""
    config = sys.modules.get("matplotlib_inline.config")
    if config is not None and config.InlineBackend.initialized():
        inline = config.InlineBackend.instance()
        shown = (sorted(inline.figure_formats), inline.print_figure_kwargs, inline.close_figures)
        return repr(shown)
    return repr((["png"], {"bbox_inches": "tight"}, True))
