"""pydantic, attrs, msgspec, sortedcontainers, traitlets and other small libraries."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "pydantic, attrs, msgspec, sortedcontainers and others",
    requires=(
        "pydantic",
        "attrs",
        "msgspec",
        "sortedcontainers",
        "toolz",
        "dateutil",
        "tqdm",
        "ipywidgets",
        "openpyxl",
    ),
    prelude=(
        "import attr, attrs, dateutil.relativedelta, dateutil.tz, ipywidgets, msgspec, openpyxl, operator, pydantic\n"
        "import sortedcontainers as sc, toolz, tqdm, traitlets, traitlets.config"
    ),
    cases=(
        Case(
            "pydantic.BaseModel",
            "class M(pydantic.BaseModel):\n    a: int = 1\n    b: list[int] = []\nx = M(a=3)",
            "print(x, x.model_dump())",
            "x.b.append(1)",
            recomputed="its class is made by a metaclass of pydantic",
        ),
        Case(
            "pydantic.PrivateAttr",
            "class M(pydantic.BaseModel):\n    a: int = 1\n    _p: int = pydantic.PrivateAttr(default=3)\nx = M()",
            "print(x, x._p)",
            "x._p = 9",
            recomputed="its class is made by a metaclass of pydantic",
        ),
        Case("pydantic.SecretStr", "x = pydantic.SecretStr('a')", "print(x, x.get_secret_value())"),
        Case(
            "attrs.define",
            "@attrs.define\nclass A:\n    a: int = 1\n    b: list = attrs.field(factory=list)\nx = A()",
            "print(x)",
            "x.b.append(1)",
            recomputed="its methods are generated, each in a namespace of its own",
        ),
        Case(
            "attrs.frozen",
            "@attrs.frozen\nclass A:\n    a: list\nx = A([1])",
            "print(x)",
            "x.a.append(2)",
            recomputed="its methods are generated, each in a namespace of its own",
        ),
        Case(
            "attr.s",
            "@attr.s\nclass A:\n    a = attr.ib(default=1)\nx = A()",
            "print(x)",
            "x.a = 2",
            recomputed="its methods are generated, each in a namespace of its own",
        ),
        Case(
            "msgspec.Struct",
            "class M(msgspec.Struct):\n    a: int = 1\nx = M()",
            "print(x)",
            "x.a = 3",
            recomputed="its class is laid out by msgspec",
        ),
        Case("SortedDict", "x = sc.SortedDict({2: 1, 1: 2})", "print(x, x.keys()[0])", "x[0] = 1"),
        Case("SortedList", "x = sc.SortedList([3, 1])", "print(x, x.bisect(2))", "x.add(2)"),
        Case(
            "SortedSet",
            "x = sc.SortedSet('banana')",
            "print(list(x))",
            "x.add('z')",
            varies="sets of texts are ordered by hashes, which differ from process to process",
        ),
        Case(
            "SortedKeyList",
            "x = sc.SortedKeyList([3, 1], key=operator.neg)",
            "print(list(x))",
            "x.add(2)",
        ),
        Case(
            "traitlets.HasTraits",
            "class T(traitlets.HasTraits):\n    a = traitlets.Int(1)\nx = T()",
            "print(x.a)",
            "x.a = 2",
            recomputed="its class is made by a metaclass of traitlets",
        ),
        Case(
            "traitlets.Config",
            "x = traitlets.config.Config(A={'b': 1})",
            "print(x.A.b)",
            "x.A.b = 2",
            recomputed="reading it sets an attribute of its class",
        ),
        Case("toolz.curry", "x = toolz.curry(operator.add)(1)", "print(x(2))"),
        Case("toolz.compose", "x = toolz.compose(str, abs)", "print(x(-2))"),
        Case(
            "dateutil.relativedelta",
            "x = dateutil.relativedelta.relativedelta(months=1)",
            "print(x)",
        ),
        Case("dateutil.tz", "x = dateutil.tz.gettz('Europe/Berlin')", "print(x)"),
        Case("tqdm", "x = tqdm.tqdm(total=3, disable=True)", "print(x.total)", "x.total = 4"),
        Case(
            "tqdm, shown",
            "import io; x = tqdm.tqdm(total=3, file=io.StringIO())",
            "print(x.n)",
            "done = x.update(1)",
            recomputed="it holds a weak proxy",
        ),
        Case(
            "ipywidgets",
            "x = ipywidgets.IntSlider(3)",
            "print(x.value)",
            "x.value = 4",
            recomputed="it is connected to the front end",
        ),
        Case(
            "openpyxl.Workbook",
            "x = openpyxl.Workbook()",
            "print(x.active['A1'].value)",
            "x.active['A1'] = 3",
            varies="it holds the time when it was made",
            fills="it makes the cells that it is asked for",
        ),
    ),
)
