"""Iterators of the standard library: the test takes from each what is left of it."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_HINT = "print(x.__length_hint__())"
_TYPE = "print(type(x).__name__, taken)"
_NEXT = "taken.append(next(x))"
_LIVE = "where it stands is not known"


def _case(name: str, create: str, recomputed: str = "") -> Case:
    return Case(name, f"taken = []; {create}; taken.append(next(x))", _TYPE, _NEXT, recomputed)


LIBRARY = Library(
    "Standard library: iterators",
    prelude="import collections, csv, io, itertools, operator",
    fast=True,
    cases=(
        Case("list_iterator", "x = iter([1, 2, 3])", _HINT, "taken = next(x)"),
        Case("list_iterator, at its end", "x = iter([1]); list(x)", "print(next(x, 'end'))"),
        Case("list_reverseiterator", "x = reversed([1, 2])", _HINT, "taken = next(x)"),
        Case("tuple_iterator", "x = iter((1, 2, 3))", _HINT, "taken = next(x)"),
        Case("reversed", "x = reversed((1, 2))", _HINT, "taken = next(x)"),
        Case("str_iterator", "x = iter('abc')", _HINT, "taken = next(x)"),
        Case("bytes_iterator", "x = iter(b'abc')", _HINT, "taken = next(x)"),
        Case("bytearray_iterator", "x = iter(bytearray(b'abc'))", _HINT, "taken = next(x)"),
        Case("range_iterator", "x = iter(range(5))", _HINT, "taken = next(x)"),
        Case(
            "range_iterator of large numbers",
            "x = iter(range(2**70, 2**70 + 5))",
            _HINT,
            "taken = next(x)",
        ),
        Case(
            "dict_keyiterator", "x = iter({1: 2, 3: 4})", _HINT, "taken = next(x)", recomputed=_LIVE
        ),
        Case(
            "dict_itemiterator",
            "x = iter({1: 2, 3: 4}.items())",
            _HINT,
            "taken = next(x)",
            recomputed=_LIVE,
        ),
        Case("set_iterator", "x = iter({1, 2})", _HINT, "taken = next(x)", recomputed=_LIVE),
        Case(
            "iterator of a list that another name holds",
            "a = [1, 2, 3]; x = iter(a); first = next(x)",
            "print(a, x.__length_hint__())",
            "a.append(4)",
        ),
        _case("callable_iterator", "x = iter([1, 2, 3].pop, 1)"),
        _case("enumerate", "x = enumerate('abc', 5)"),
        _case("zip", "x = zip([1, 2, 3], 'abc', strict=True)"),
        _case("map", "x = map(str.upper, ['a', 'b', 'c'])"),
        _case("filter", "x = filter(None, [0, 1, 2, 3])"),
        _case("generator", "x = (n for n in [1, 2, 3])", "its frame cannot be stored"),
        _case("itertools.count", "x = itertools.count(3, 2)"),
        _case("itertools.cycle", "x = itertools.cycle([1, 2])"),
        _case("itertools.repeat", "x = itertools.repeat('a', 5)"),
        _case("itertools.chain", "x = itertools.chain([1, 2], [3])"),
        _case("itertools.islice", "x = itertools.islice([1, 2, 3, 4], 1, None)"),
        _case("itertools.product", "x = itertools.product([1, 2], 'ab')"),
        _case("itertools.permutations", "x = itertools.permutations('abc', 2)"),
        _case("itertools.combinations", "x = itertools.combinations('abc', 2)"),
        _case("itertools.accumulate", "x = itertools.accumulate([1, 2, 3], operator.mul)"),
        _case("itertools.starmap", "x = itertools.starmap(pow, [(2, 3), (3, 2)])"),
        _case("itertools.zip_longest", "x = itertools.zip_longest('a', 'bc', fillvalue=0)"),
        _case("itertools.compress", "x = itertools.compress('abcd', [1, 0, 1, 1])"),
        _case("itertools.takewhile", "x = itertools.takewhile(bool, [1, 2, 0])"),
        _case("itertools.dropwhile", "x = itertools.dropwhile(bool, [1, 0, 2])"),
        _case("itertools.groupby", "x = (k for k, g in itertools.groupby('aabb'))", _LIVE),
        _case("itertools.tee", "x, other = itertools.tee([1, 2, 3])", _LIVE),
        _case("csv.reader", "x = csv.reader(['a,b', 'c,d', 'e,f'])", _LIVE),
        _case("csv.DictReader", "x = csv.DictReader(io.StringIO('a,b\\n1,2\\n3,4'))", _LIVE),
    ),
)
