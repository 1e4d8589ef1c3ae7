"""Numbers, dates, texts and other values of the standard library."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Standard library: numbers, dates, texts",
    prelude="import datetime, decimal, fractions, ipaddress, random, re, statistics, struct, uuid, zoneinfo",
    fast=True,
    cases=(
        Case("decimal.Decimal", "x = decimal.Decimal('1.10')", "print(x, x + 1)"),
        Case(
            "decimal.Context",
            "x = decimal.Context(prec=5)",
            "print(x.prec, x.flags[decimal.Inexact])",
            "x.prec = 7",
        ),
        Case("fractions.Fraction", "x = fractions.Fraction(1, 3)", "print(x, x * 3)"),
        Case("complex", "x = [1j, -0.0, 2**70]", "print(x)", "x.append(1)"),
        Case("statistics.NormalDist", "x = statistics.NormalDist(1, 2)", "print(x, x.pdf(0))"),
        Case(
            "random.Random",
            "x = random.Random(3); x.random();",
            "print(hash(x.getstate()[1]))",
            "x.shuffle([1, 2, 3])",
        ),
        Case(
            "random.Random after gauss()",
            "x = random.Random(3); x.gauss(0, 1);",
            "print(x.getstate()[2])",
            "done = x.gauss(0, 1)",
        ),
        Case(
            "random.SystemRandom",
            "x = random.SystemRandom()",
            "print(type(x))",
            recomputed="it has no state of its own",
        ),
        Case(
            "datetime.datetime",
            "x = datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)",
            "print(x)",
        ),
        Case("datetime.date", "x = datetime.date(2020, 1, 2)", "print(x)"),
        Case("datetime.time", "x = datetime.time(1, 2, fold=1)", "print(x, x.fold)"),
        Case("datetime.timedelta", "x = datetime.timedelta(1, 2, 3)", "print(x)"),
        Case(
            "datetime.timezone",
            "x = datetime.timezone(datetime.timedelta(hours=2), 'X')",
            "print(x)",
        ),
        Case(
            "zoneinfo.ZoneInfo",
            "x = zoneinfo.ZoneInfo('Europe/Berlin')",
            "print(x, x is zoneinfo.ZoneInfo('Europe/Berlin'))",
        ),
        Case(
            "subclass of datetime with attributes",
            "class D(datetime.datetime): pass\nx = D(2020, 1, 2); x.more = [1]",
            "print(x, x.more)",
            "x.more.append(2)",
            recomputed="its pickle leaves attributes out",
        ),
        Case("uuid.UUID", "x = uuid.UUID(int=5)", "print(x)"),
        Case(
            "ipaddress.IPv4Network",
            "x = ipaddress.ip_network('10.0.0.0/24')",
            "print(x, x.num_addresses)",
        ),
        Case("ipaddress.IPv6Address", "x = ipaddress.ip_address('::1')", "print(x)"),
        Case("re.Pattern", "x = re.compile('a(.)', re.I)", "print(x, x.findall('ABac'))"),
        Case(
            "re.Match",
            "x = re.match('a(.)', 'ab')",
            "print(x.group(1))",
            recomputed="it cannot be pickled",
        ),
        Case("struct.Struct", "x = struct.Struct('<id')", "print(x.size, x.format)"),
        Case("slice and Ellipsis", "x = (slice(1), ...)", "print(x)"),
        Case("exception", "x = ValueError('a', 3)", "print(repr(x))", "x.args = (4,)"),
        Case(
            "exception with a note",
            "x = ValueError('a'); x.add_note('b')",
            "print(x.__notes__)",
            "x.add_note('c')",
        ),
        Case(
            "exception with a cause",
            "x = ValueError('a'); x.__cause__ = KeyError(1)",
            "print(repr(x.__cause__))",
            "x.__cause__ = None",
        ),
        Case(
            "OSError",
            "x = FileNotFoundError(2, 'no', 'f')",
            "print(x, x.errno, x.filename)",
            "x.filename = 'g'",
        ),
        Case(
            "UnicodeDecodeError",
            "x = UnicodeDecodeError('utf8', b'a', 0, 1, 'r')",
            "print(x)",
            "x.reason = 'q'",
        ),
        Case("ImportError", "x = ImportError('a', name='m')", "print(x, x.name)", "x.name = 'z'"),
        Case("StopIteration", "x = StopIteration(3)", "print(x.value)", "x.value = 4"),
        Case(
            "ExceptionGroup",
            "x = ExceptionGroup('g', [ValueError(1)])",
            "print(repr(x), x.exceptions)",
        ),
        Case(
            "exception with arguments of its own",
            "class E(Exception):\n    def __init__(self, a, b):\n        super().__init__(f'{a} {b}'); self.a = a\nx = E(1, 2)",
            "print(repr(x), x.a)",
            "x.a = 3",
        ),
        Case(
            "exception that was caught",
            "try:\n    1 / 0\nexcept ZeroDivisionError as problem:\n    x = problem",
            "print(repr(x))",
            recomputed="its traceback holds frames",
        ),
    ),
)
