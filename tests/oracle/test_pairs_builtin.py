"""Edits of notebooks about the language itself: values that are shared, changed, and handed on.

Each pair is held against runs without NBRewind; the cells that run are the fewest that can.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare
from tests.oracle.pairs import Delete, Insert, Move, Notebook, Pair, Swap, pairs

NOTEBOOKS = (
    Notebook(
        "shopping",
        """
        prices = {"apple": 0.5, "pear": 0.75, "melon": 3.2}
        basket = ["apple", "apple", "melon"]
        ---
        def total(items):
            return sum(prices[i] for i in items)
        ---
        print(f"total {total(basket):.2f}")
        ---
        basket.append("pear")
        ---
        print(f"total {total(basket):.2f}", len(basket))
        ---
        unused = sorted(set(prices) - set(basket))
        unused
        ---
        report = "\\n".join(f"{k:<8}{v:>6.2f}" for k, v in prices.items())
        print(report)
        """,
        (
            ("move report up", Move(6, 1), []),
            ("change appended", Swap(3, '"pear"', '"melon"'), [3, 4, 5]),
            ("edit function", Swap(1, "return sum(", "return 2 * sum("), [1, 2, 4]),
            ("comment in function", Swap(1, "(items):", "(items):  # by price"), []),
        ),
    ),
    Notebook(
        "bank undo",
        """
        balance = 100
        ---
        transactions = [("in", 50), ("out", 30)]
        ---
        for kind, n in transactions:
            balance = balance + n if kind == "in" else balance - n
        ---
        print("balance", balance)
        ---
        kind, n
        ---
        transactions += [("in", 5)]
        ---
        balance += transactions[-1][1]
        balance
        ---
        stats = {k: sum(n for kk, n in transactions if kk == k) for k in ("in", "out")}
        stats
        ---
        assert stats["in"] - stats["out"] == balance - 100
        "ok"
        """,
        (
            ("move stats earlier", Move(6, 7), []),
            ("start balance", Swap(0, "100", "100.0"), [0, 2, 3, 6, 8]),
            ("amount", Swap(1, "30", "40"), [1, 2, 3, 4, 5, 6, 7, 8]),
            ("last", Swap(5, "5)", "6)"), [5, 6, 7, 8]),
        ),
    ),
    Notebook(
        "nested",
        """
        grid = [[0] * 3 for _ in range(3)]
        ---
        row = grid[1]
        ---
        row[0] = 7
        ---
        print(grid)
        ---
        shared = [[0] * 3] * 3
        shared[0][0] = 1
        print(shared)
        ---
        import copy
        deep = copy.deepcopy(grid)
        shallow = copy.copy(grid)
        ---
        grid[1][1] = 9
        print(deep[1], shallow[1])
        ---
        print(sum(map(sum, grid)))
        """,
        (
            ("row value", Swap(2, "7", "8"), [2, 3, 5, 6, 7]),
            ("other row", Swap(1, "[1]", "[2]"), [1, 2, 3, 5, 6, 7]),
            ("shared size", Swap(4, "* 3\n", "* 2\n"), [4]),
            ("deep swap", Swap(5, "copy.deepcopy(grid)", "[list(r) for r in grid]"), [5]),
        ),
    ),
    Notebook(
        "iterators",
        """
        data = [10, 20, 30, 40]
        ---
        it = iter(data)
        ---
        next(it)
        ---
        next(it)
        ---
        rest = list(it)
        rest
        ---
        import itertools
        acc = list(itertools.accumulate(data))
        ---
        cyc = itertools.cycle("abc")
        labels = [next(cyc) for _ in range(5)]
        labels
        ---
        next(cyc)
        ---
        list(zip(acc, labels))
        ---
        e = enumerate(data, start=1)
        dict(e)
        """,
        (
            ("insert another next", Insert(4, "next(it)"), [4, 5]),
            ("data", Swap(0, "40]", "50]"), [0, 1, 2, 3, 4, 5, 8, 9]),
            ("labels", Swap(6, "range(5)", "range(4)"), [6, 7, 8]),
            ("delete a next", Delete(3), [3]),
        ),
    ),
    Notebook(
        "generators",
        """
        def countdown(n):
            while n:
                got = yield n
                if got:
                    n = got
                n -= 1
        ---
        g = countdown(5)
        ---
        print(next(g))
        ---
        print(g.send(3))
        ---
        print(list(g))
        ---
        squares = (i * i for i in range(4))
        total = sum(squares)
        total
        ---
        def chain(*its):
            for it in its:
                yield from it
        list(chain("ab", [1, 2]))
        ---
        print("done", total)
        """,
        (
            ("send other", Swap(3, "3", "4"), [1, 2, 3, 4]),
            ("total", Swap(5, "range(4)", "range(5)"), [5, 7]),
            ("last only", Swap(7, "done", "finished"), [7]),
            ("edit countdown", Swap(0, "yield n\n", "yield n + 1\n"), [0, 1, 2, 3, 4]),
        ),
    ),
    Notebook(
        "closures",
        """
        def make_counter(start=0):
            n = start
            def inc(by=1):
                nonlocal n
                n += by
                return n
            return inc
        ---
        c1 = make_counter()
        c2 = make_counter(10)
        ---
        c1(), c1(), c2()
        ---
        c2(5)
        ---
        fs = [lambda k=k: k * 2 for k in range(3)]
        late = [lambda: k for k in range(3)]
        ---
        print([f() for f in fs], [f() for f in late])
        ---
        print(c1(), c2())
        ---
        from functools import partial, reduce
        add = partial(int.__add__, 3)
        add(4), reduce(lambda a, b: a * b, [1, 2, 3, 4])
        """,
        (
            ("c2 step", Swap(3, "c2(5)", "c2(6)"), [3, 6]),
            ("start", Swap(1, "10", "20"), [1, 2, 3, 6]),
            ("late to early", Swap(4, "late = [lambda: k", "late = [lambda k=k: k"), [4, 5]),
            ("default step", Swap(0, "by=1", "by=2"), [0, 1, 2, 3, 6]),
        ),
    ),
    Notebook(
        "inplace",
        """
        a = [1, 2]
        b = a
        ---
        a += [3]
        ---
        print(b)
        ---
        t = (1, 2)
        u = t
        t += (3,)
        print(u)
        ---
        s = "ab"
        s *= 2
        s
        ---
        d = {"k": a}
        d |= {"j": b}
        ---
        d["k"] is d["j"]
        ---
        a = a + [4]
        ---
        print(len(a), len(b), d)
        ---
        n = 5
        n -= 1; n *= 3; n //= 2
        n
        """,
        (
            ("move n up", Move(9, 0), []),
            ("plus-equals to plus", Swap(1, "a += [3]", "a = a + [3]"), [1, 2, 5, 6, 7, 8]),
            ("extend value", Swap(1, "[3]", "[30]"), [1, 2, 5, 6, 7, 8]),
            ("rebinding becomes mutation", Swap(7, "a = a + [4]", "a += [4]"), [7, 8]),
        ),
    ),
    Notebook(
        "inherit",
        """
        from abc import ABC, abstractmethod
        class Shape(ABC):
            @abstractmethod
            def area(self): ...
            def describe(self):
                return f"{type(self).__name__} {self.area():.1f}"
        ---
        class Square(Shape):
            def __init__(self, s): self.s = s
            def area(self): return self.s ** 2
        ---
        class Circle(Shape):
            def __init__(self, r): self.r = r
            def area(self): return 3.14159 * self.r ** 2
        ---
        shapes = [Square(2), Circle(1)]
        ---
        for s in shapes:
            print(s.describe())
        ---
        class Big(Square):
            def area(self): return super().area() * 10
        ---
        b = Big(3)
        b.describe()
        ---
        isinstance(b, Square), Big.__mro__[1].__name__
        ---
        sq = Square(4)
        sq.describe()
        """,
        (
            ("circle pi", Swap(2, "3.14159", "3"), [2, 3, 4]),
            ("square area", Swap(1, "** 2", "** 3"), [1, 3, 4, 5, 6, 7, 8]),
            ("big factor", Swap(5, "10", "20"), [5, 6, 7]),
            ("describe", Swap(0, ".1f", ".2f"), [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ),
    ),
    Notebook(
        "collections",
        """
        from collections import defaultdict, deque, OrderedDict, Counter, ChainMap
        ---
        dd = defaultdict(list)
        for k, v in [("a", 1), ("b", 2), ("a", 3)]:
            dd[k].append(v)
        ---
        dict(dd)
        ---
        dd["c"]
        len(dd)
        ---
        q = deque([1, 2, 3], maxlen=3)
        q.append(4)
        ---
        q.rotate(1)
        list(q)
        ---
        cnt = Counter("mississippi")
        cnt.most_common(2)
        ---
        cnt.subtract("miss")
        +cnt
        ---
        base = {"color": "red"}
        cm = ChainMap({}, base)
        cm["size"] = 3
        ---
        base["color"] = "blue"
        print(dict(cm))
        ---
        od = OrderedDict(dd)
        od.move_to_end("a")
        list(od)
        """,
        (
            ("append", Swap(4, "append(4)", "append(5)"), [4, 5]),
            ("rotate", Swap(5, "rotate(1)", "rotate(2)"), [5]),
            ("base color", Swap(9, '"blue"', '"green"'), [9]),
            ("dd pair", Swap(1, '("a", 3)', '("b", 3)'), [1, 2, 3, 10]),
        ),
    ),
    Notebook(
        "inventory",
        """
        inventory = {"bolt": {"qty": 10, "price": 0.2}, "nut": {"qty": 5, "price": 0.1}}
        ---
        bolt = inventory["bolt"]
        ---
        def restock(inv, name, n):
            inv[name]["qty"] += n
        ---
        restock(inventory, "bolt", 5)
        ---
        print(bolt)
        ---
        value = sum(i["qty"] * i["price"] for i in inventory.values())
        round(value, 2)
        ---
        snapshot = {k: dict(v) for k, v in inventory.items()}
        ---
        bolt["qty"] = 0
        ---
        changed = [k for k in inventory if inventory[k] != snapshot[k]]
        changed
        ---
        inventory["gear"] = {"qty": 1, "price": 9.9}
        list(inventory)
        """,
        (
            ("restock nut", Swap(3, '"bolt"', '"nut"'), [3, 4, 5, 6, 7, 8, 9]),
            (
                "bolt to copy",
                Swap(1, 'bolt = inventory["bolt"]', 'bolt = dict(inventory["bolt"])'),
                [1, 3, 4, 7, 8, 9],
            ),
            ("bolt qty", Swap(7, "= 0", "= 15"), [7, 8, 9]),
            ("gear", Swap(9, "9.9", "8.9"), [9]),
        ),
    ),
    Notebook(
        "callbacks",
        """
        handlers = {}
        def on(event):
            def deco(f):
                handlers.setdefault(event, []).append(f)
                return f
            return deco
        ---
        @on("start")
        def hello(who):
            out.append(f"hello {who}")
        ---
        @on("start")
        @on("stop")
        def note(who):
            out.append(who.upper())
        ---
        out = []
        def fire(event, who):
            for f in handlers.get(event, []):
                f(who)
        ---
        fire("start", "ann")
        ---
        print(out)
        ---
        fire("stop", "bob")
        ---
        print(out[-1], len(handlers["start"]))
        ---
        size = len("constant")
        size
        """,
        (
            ("hello text", Swap(1, "hello {who}", "hi {who}"), [1, 2, 4, 5, 6, 7]),
            ("note only stop", Swap(2, '@on("start")\n', ""), [2, 4, 5, 6, 7]),
            ("who", Swap(4, '"ann"', '"amy"'), [4, 5, 6, 7]),
            ("stop who", Swap(6, '"bob"', '"ben"'), [6, 7]),
        ),
    ),
    Notebook(
        "iterators at their end",
        """
        seen = [1, 2, 3]
        backwards = reversed(seen)
        text = reversed("ab")
        ---
        next(backwards), next(text)
        ---
        list(backwards), list(text)
        ---
        print(len(seen))
        """,
        (
            ("look at them", Insert(4, "type(backwards), type(text), [*backwards, *text]"), [4]),
            ("more to see", Swap(0, "3]", "3, 4]"), [0, 1, 2, 3]),
            ("look before the end", Insert(2, "next(backwards)"), [2, 3]),
        ),
    ),
)


@pytest.mark.parametrize("pair", pairs(NOTEBOOKS), ids=lambda pair: pair.name)
def test_an_edit_runs_what_it_has_to_and_no_more(pair: Pair, root: Path) -> None:
    assert compare(pair.before, pair.after, root).executed == pair.executed
