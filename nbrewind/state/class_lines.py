"""Where a class stands in its cell, which Python 3.13 notes in the class itself.

The line travels as that of a code object, beside the stream: a class that merely moved is
the same version of it.
"""

from __future__ import annotations

import types
from typing import Any

_LINE = "__firstlineno__"
BY_COMPILER = frozenset({_LINE, "__static_attributes__"})
"""What Python 3.13 notes of a class statement."""

_NO_CODE = compile("", "<class>", "exec")


def stored_attribute(key: str, value: Any, owner: str) -> tuple[str, Any]:
    """An attribute of the class named `owner` as it goes into a stream."""
    if key == _LINE and isinstance(value, int):
        return key, _NO_CODE.replace(co_firstlineno=value, co_name=owner, co_qualname=owner)
    return key, value


def loaded_attribute(key: str, value: Any) -> Any:
    """The value of an attribute that comes out of a stream."""
    return value.co_firstlineno if key == _LINE and isinstance(value, types.CodeType) else value
