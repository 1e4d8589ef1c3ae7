"""SQLAlchemy."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_MEMO = "it keeps what it has compiled"
_MODEL = (
    "class Base(orm.DeclarativeBase): pass\nclass User(Base):\n    __tablename__ = 'u'\n"
    "    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)\n"
)

LIBRARY = Library(
    "SQLAlchemy",
    requires=("sqlalchemy",),
    prelude="import sqlalchemy as sa, sqlalchemy.orm as orm",
    cases=(
        Case(
            "MetaData",
            "x = sa.MetaData(); sa.Table('t', x, sa.Column('a', sa.Integer));",
            "print(list(x.tables))",
            "x.clear()",
            varies="its events depend on what else was made before it",
        ),
        Case(
            "Table",
            "m = sa.MetaData(); x = sa.Table('t', m, sa.Column('a', sa.Integer))",
            "print(x.name, len(x.columns))",
            "x.append_column(sa.Column('b', sa.Integer))",
            varies="its events depend on what else was made before it",
        ),
        Case(
            "Integer and other types",
            "x = [sa.Integer(), sa.String(10), sa.Numeric(10, 2)]",
            "print(x)",
            "x.append(sa.Text())",
        ),
        Case("URL", "x = sa.make_url('sqlite:///a.db')", "print(x)"),
        Case("text()", "x = sa.text('select 1')", "print(x.text)"),
        Case(
            "select()",
            "x = sa.select(sa.column('a')).limit(3)",
            "print(x._limit)",
            recomputed=_MEMO,
        ),
        Case(
            "Engine",
            "x = sa.create_engine('sqlite://')",
            "print(x.url)",
            "x.echo = True; x.url = 'b'",
            recomputed="it holds connections",
        ),
        Case(
            "Session",
            "x = orm.Session(sa.create_engine('sqlite://'))",
            "print(x.is_active)",
            recomputed="it holds connections",
        ),
        Case(
            "rows of a result",
            "e = sa.create_engine('sqlite://')\nwith e.connect() as c: x = c.execute(sa.text('select 1 as a')).fetchall()\ndel e, c",
            "print(x, x[0].a)",
            "x.append(1)",
        ),
        Case(
            "instance of a mapped class",
            _MODEL + "x = User(id=1)",
            "print(x.id)",
            "x.id = 2",
            recomputed="its class is kept in a registry",
        ),
    ),
)
