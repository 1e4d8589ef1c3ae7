"""Functions and classes of the notebook by value, bound to the live namespace.

A stored function names its code by canonical digest; the marshalled code itself
travels beside the stream, so a moved line or a new comment leaves the version
alone. A restored function has the notebook's own dictionary as its globals. A
restored class is the live one changed in place where it is alive, because its
instances point to it.
"""

from __future__ import annotations

import abc
import collections
import enum
import sys
import types
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotRestorable, NotStorable
from nbrewind.state.class_lines import BY_COMPILER, loaded_attribute, stored_attribute
from nbrewind.state.code import code_digest
from nbrewind.state.entities import MAIN, is_notebook_class
from nbrewind.state.instances import HEAP_TYPE, built_in_base

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

Reduced = tuple[Any, ...]

_EMPTY = "nbrewind: empty cell"


# -- functions ----------------------------------------------------------------------------


def reduce_function(pickler: StatePickler, function: types.FunctionType, entity: str) -> Reduced:
    """Reduce a function by value; `entity` is its id or empty."""
    code = function.__code__
    digest = pickler.add_code(code)
    cells = function.__closure__ or ()
    pickler.function_cells.update(map(id, cells))
    contents: list[Any] = []
    for cell in cells:
        try:
            contents.append((True, cell.cell_contents))
        except ValueError:
            contents.append((False, None))
    state: dict[str, Any] = {}
    if function.__defaults__ is not None:
        state["defaults"] = function.__defaults__
    if function.__kwdefaults__ is not None:
        state["kwdefaults"] = function.__kwdefaults__
    if function.__annotations__:
        state["annotations"] = function.__annotations__
    if function.__dict__:
        state["dict"] = function.__dict__
    if function.__name__ != code.co_name:
        state["name"] = function.__name__
    if function.__qualname__ != code.co_qualname:
        state["qualname"] = function.__qualname__
    if function.__module__ != function.__globals__.get("__name__"):
        state["module"] = function.__module__
    if function.__doc__ != _doc_of(code):
        state["doc"] = function.__doc__
    if getattr(function, "__type_params__", ()):
        state["type_params"] = function.__type_params__  # type: ignore[attr-defined]
    module = pickler.globals_owner(function)
    return (
        make_function,
        (entity, module, digest, cells),
        (state, contents),
        None,
        None,
        set_function_state,
    )


def make_function(
    entity: str, module: str, digest: str, cells: tuple[types.CellType, ...]
) -> types.FunctionType:
    """A function without state; the live one if the entity is alive and runs this code."""
    from nbrewind.state.restoring import current_restore

    restore = current_restore()
    code = restore.code(digest)
    if entity:
        live = restore.entities.get(entity)
        if isinstance(live, types.FunctionType) and len(live.__closure__ or ()) == len(cells):
            live.__code__ = code
            return live
    function = types.FunctionType(code, restore.globals_of(module), None, None, tuple(cells))
    if entity:
        restore.bind(entity, function)
    return function


def set_function_state(function: types.FunctionType, state: Any) -> None:
    """Give a function its defaults, attributes and closure contents."""
    values, contents = state
    function.__defaults__ = values.get("defaults")
    function.__kwdefaults__ = values.get("kwdefaults")
    function.__annotations__ = values.get("annotations", {})
    function.__dict__.clear()
    function.__dict__.update(values.get("dict", {}))
    function.__name__ = values.get("name", function.__code__.co_name)
    function.__qualname__ = values.get("qualname", function.__code__.co_qualname)
    function.__doc__ = values["doc"] if "doc" in values else _doc_of(function.__code__)
    if "module" in values:
        function.__module__ = values["module"]
    if "type_params" in values:
        function.__type_params__ = values["type_params"]  # type: ignore[attr-defined]
    for cell, (filled, value) in zip(function.__closure__ or (), contents, strict=True):
        if filled:
            cell.cell_contents = value


def _doc_of(code: types.CodeType) -> str | None:
    """The documentation that a function of this code starts with."""
    if _HAS_DOCSTRING and not code.co_flags & _HAS_DOCSTRING:
        return None
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


_HAS_DOCSTRING = 0x4000000 if sys.version_info >= (3, 13) else 0
"""The flag of code whose first constant is its documentation; earlier the first always was."""


def reduce_cell(pickler: StatePickler, cell: types.CellType) -> Reduced:
    """Reduce a closure cell; its contents travel with the functions that own it."""
    if id(cell) not in pickler.function_cells:
        raise NotStorable("a closure cell is held apart from its function")
    return (make_cell, ())


def make_cell() -> types.CellType:
    """An empty closure cell."""
    return types.CellType()


# -- classes ------------------------------------------------------------------------------

_NOT_STATE = frozenset(
    {"__dict__", "__weakref__", "_abc_impl", "__module__", "__qualname__", "__slots__"}
    | {"__slotnames__"}  # copyreg's cache
)
_NO_PLACE = frozenset({"__dict__", "__weakref__", "_abc_impl", "__slotnames__"})
_ENUM_MACHINERY = frozenset(
    {
        "_generate_next_value_",
        "_member_map_",
        "_member_names_",
        "_member_type_",
        "_value2member_map_",
        "_hashable_values_",
        "_unhashable_values_",
        "_unhashable_values_map_",
        "_new_member_",
        "_use_args_",
        "_value_repr_",
        "_flag_mask_",
        "_singles_mask_",
        "_all_bits_",
        "_boundary_",
        "_inverted_",
        "__new__",
        "__new_member__",
    }
)


def reduce_class(cls: type, entity: str) -> Reduced:
    """Reduce a class of the notebook by value; `entity` is its id or empty.

    Raises:
        NotStorable: making the class anew would run code of the user or of a library
            whose effect is not known.
    """
    own = type.__getattribute__(cls, "__dict__")
    if not cls.__flags__ & HEAP_TYPE:
        raise NotStorable(f"type {cls.__qualname__} is not reachable by its name")
    if isinstance(cls, enum.EnumMeta):
        return _reduce_enum(cls, own, entity)
    if _is_named_tuple(cls):
        return _reduce_named_tuple(cls, own, entity)
    if "__class__" in own:
        raise NotStorable(f"instances of {cls.__qualname__} say that they are of another class")
    meta = type(cls)
    if not (meta is type or meta is abc.ABCMeta or is_notebook_class(meta) or _is_of_typing(meta)):
        raise NotStorable(f"class {cls.__qualname__} has the metaclass {meta.__qualname__}")
    for base in cls.__mro__[1:]:
        if is_notebook_class(base) and "__init_subclass__" in base.__dict__:
            raise NotStorable(f"class {cls.__qualname__} is registered by its base")
    if "_abc_impl" in own and abc._get_dump(cls)[0]:  # type: ignore[attr-defined]
        raise NotStorable(f"abstract class {cls.__qualname__} has registered classes")
    slots = own.get("__slots__")
    skeleton = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    if "__orig_bases__" in own:  # `typing.Generic` insists on it
        skeleton["__orig_bases__"] = own["__orig_bases__"]
    if slots is not None:
        skeleton["__slots__"] = slots
    state = [stored_attribute(key, value, cls.__qualname__) for key, value in class_state(cls)]
    # Placeholders keep the order of the attributes, which `vars()` shows. Where a base looks at
    # its subclasses while they are made, special ones that are no methods have none.
    looked_at = _is_looked_at(cls)
    order = tuple(
        _interned(key)
        for key, value in own.items()
        if key not in _NO_PLACE
        and not isinstance(value, types.MemberDescriptorType)
        and not (looked_at and _is_special(key, value))
    )
    args = (entity, meta, cls.__name__, cls.__bases__, skeleton, order)
    return (make_class, args, state, None, None, set_class_state)


def class_state(cls: type) -> list[tuple[str, Any]]:
    """A class's own attributes, without what making the class brings about."""
    return [
        (_interned(key), value)
        for key, value in type.__getattribute__(cls, "__dict__").items()
        if key not in _NOT_STATE
        and not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
    ]


def _interned(key: Any) -> Any:
    """The one string of this text, as the compiler's are: streams of equal classes are equal."""
    return sys.intern(key) if type(key) is str else key


def _is_looked_at(cls: type) -> bool:
    """Whether code of a library runs when a class with these bases is made."""
    return any(
        "__init_subclass__" in base.__dict__ for base in cls.__mro__[1:] if base is not object
    )


def _is_special(key: str, value: Any) -> bool:
    special = key.startswith("__") and key.endswith("__") and key != "__doc__"
    return special and not isinstance(value, types.FunctionType | classmethod | staticmethod)


def _is_of_typing(meta: type) -> bool:
    """Whether a metaclass is that of protocols or of typed dictionaries: plain attributes."""
    return meta.__module__ == "typing" and meta.__name__ in ("_ProtocolMeta", "_TypedDictMeta")


def make_class(
    entity: str,
    meta: type,
    name: str,
    bases: tuple[type, ...],
    skeleton: dict[str, Any],
    order: tuple[str, ...],
) -> type:
    """A class without state; the live one if the entity is alive."""
    from nbrewind.state.restoring import current_restore

    restore = current_restore()
    live = restore.entities.get(entity) if entity else None
    if isinstance(live, type) and live.__bases__ == bases and type(live) is meta:
        return live
    maker = abc.ABCMeta if issubclass(meta, abc.ABCMeta) else type
    body = {_interned(key): skeleton.get(key) for key in order}
    if "__new__" in body:  # an instance may be made before the class has its own
        body["__new__"] = built_in_base(bases[0]).__new__
    cls: type = maker.__new__(meta, name, bases, {**body, **skeleton})
    if entity:
        restore.bind(entity, cls)
    return cls


def set_class_state(cls: type, state: list[tuple[str, Any]]) -> None:
    """Make a class's own attributes those of `state`, in its order where it is new."""
    state = [(key, loaded_attribute(key, value)) for key, value in state]
    wanted = dict(state)
    for key, value in list(type.__getattribute__(cls, "__dict__").items()):
        if (
            key not in wanted
            and key not in _NOT_STATE
            and not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
        ):
            type.__delattr__(cls, key)
    for key, value in state:
        if cls.__dict__.get(key, _EMPTY) is not value:
            type.__setattr__(cls, key, value)


def _reduce_enum(cls: enum.EnumMeta, own: Any, entity: str) -> Reduced:
    members: dict[str, Any] = dict(cls.__members__)
    if type(cls) is not enum.EnumMeta or any(
        "__init__" in base.__dict__ or ("_missing_" in base.__dict__ and base is not cls)
        for base in cls.__mro__
        if is_notebook_class(base)
    ):
        raise NotStorable(f"enum {cls.__qualname__} builds its members with code of its own")
    values = [(name, member._value_) for name, member in members.items()]
    state = [
        stored_attribute(key, value, cls.__qualname__)
        for key, value in own.items()
        if key not in _NOT_STATE
        and key not in _ENUM_MACHINERY
        and key not in members
        and _written_by_user(key, value)
    ]
    boundary = getattr(own.get("_boundary_"), "name", None)
    args = (
        entity,
        cls.__name__,
        cls.__bases__,
        cls.__qualname__,
        own.get("__doc__"),
        values,
        boundary,
    )
    return (make_enum, args, state, None, None, _set_attributes)


def _written_by_user(key: str, value: Any) -> bool:
    """Whether an enum's attribute is the user's, not one that `enum` puts there."""
    if isinstance(value, types.FunctionType):
        return value.__module__ == MAIN
    if key in BY_COMPILER:
        return True
    return not key.startswith("__") and not isinstance(value, enum.property)


def make_enum(
    entity: str,
    name: str,
    bases: tuple[type, ...],
    qualname: str,
    doc: str | None,
    values: list[tuple[str, Any]],
    boundary: str | None,
) -> type:
    """An enum with its members; the live one if the entity is alive with the same members."""
    from nbrewind.state.restoring import current_restore

    restore = current_restore()
    live = restore.entities.get(entity) if entity else None
    if isinstance(live, enum.EnumMeta) and list(live.__members__) == [n for n, _ in values]:
        return live
    meta = type(bases[-1])
    namespace: Any = meta.__prepare__(name, bases)
    namespace["__module__"] = MAIN
    namespace["__qualname__"] = qualname
    if doc is not None:
        namespace["__doc__"] = doc
    for member, value in values:
        namespace[member] = value
    options = {} if boundary is None else {"boundary": enum.FlagBoundary[boundary]}
    cls: type = meta.__new__(meta, name, bases, namespace, **options)
    if entity:
        restore.bind(entity, cls)
    return cls


def _set_attributes(cls: type, state: list[tuple[str, Any]]) -> None:
    for key, value in state:
        type.__setattr__(cls, key, loaded_attribute(key, value))


def _is_named_tuple(cls: type) -> bool:
    made = getattr(cls.__new__, "__globals__", {}).get("__name__", "")
    return cls.__bases__ == (tuple,) and str(made).startswith("namedtuple_")


def _reduce_named_tuple(cls: Any, own: Any, entity: str) -> Reduced:
    make: Any = collections.namedtuple
    plain = vars(make(cls.__name__, cls._fields))
    state = [
        (key, value)
        for key, value in own.items()
        if key not in _NOT_STATE
        and key not in ("_field_defaults", "__new__")
        and not (key in plain and key != "__doc__" and _is_as_made(value, plain[key]))
    ]
    defaults = tuple(cls._field_defaults.items())
    args = (entity, cls.__name__, cls._fields, defaults, cls.__module__, cls.__qualname__)
    return (make_named_tuple, args, state, None, None, _set_attributes)


def _is_as_made(value: Any, plain: Any) -> bool:
    """Whether an attribute of a named tuple class is still the one it was made with."""
    inner, plain_inner = (getattr(v, "__func__", v) for v in (value, plain))
    if isinstance(plain_inner, types.FunctionType):
        return getattr(inner, "__code__", None) is plain_inner.__code__
    if type(value).__name__ == "_tuplegetter":
        return True
    return type(value) is type(plain) and bool(value == plain)


def make_named_tuple(
    entity: str,
    name: str,
    fields: tuple[str, ...],
    defaults: tuple[tuple[str, Any], ...],
    module: str,
    qualname: str,
) -> type:
    """A named tuple class; the live one if the entity is alive with the same fields."""
    from nbrewind.state.restoring import current_restore

    restore = current_restore()
    live: Any = restore.entities.get(entity) if entity else None
    if isinstance(live, type) and getattr(live, "_fields", None) == fields:
        return live
    values = [value for _, value in defaults]
    make: Any = collections.namedtuple
    cls = make(name, fields, defaults=values, module=module)
    cls.__qualname__ = qualname
    if entity:
        restore.bind(entity, cls)
    made: type = cls
    return made


# -- code ---------------------------------------------------------------------------------


def reduce_code(pickler: StatePickler, code: types.CodeType) -> Reduced:
    """Reduce a code object to its digest."""
    return (load_code, (pickler.add_code(code),))


def load_code(digest: str) -> types.CodeType:
    """The code object with this canonical digest, from beside the stream."""
    from nbrewind.state.restoring import current_restore

    code: types.CodeType = current_restore().code(digest)
    return code


def load_main() -> types.ModuleType:
    """The notebook's own module."""
    from nbrewind.state.restoring import current_restore

    module = sys.modules[MAIN]
    if vars(module) is not current_restore().namespace:
        raise NotRestorable("the notebook does not run in the main module")
    return module


def load_entity(entity: str) -> Any:
    """The live object of an entity; it is restored before anything that refers to it."""
    from nbrewind.state.restoring import current_restore

    return current_restore().entity(entity)


def checked_code(digest: str, code: object) -> types.CodeType:
    """Make sure that a loaded code object is the one that was asked for."""
    if not isinstance(code, types.CodeType) or code_digest(code) != digest:
        raise NotRestorable(f"code {digest[:12]} does not match its digest")
    return code
