"""Files and other streams of the standard library."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_OPEN = "it is an open file"

LIBRARY = Library(
    "Standard library: files and streams",
    prelude=(
        "import gzip, io, mmap, pathlib, shelve, sqlite3, sys, tarfile, tempfile, zipfile\n"
        "pathlib.Path('f.txt').write_text('hello\\nworld\\n');"
    ),
    cases=(
        Case(
            "io.BytesIO",
            "x = io.BytesIO(b'abc')",
            "print(x.getvalue(), x.tell())",
            "done = x.seek(1)",
        ),
        Case(
            "io.StringIO",
            "x = io.StringIO('abc')",
            "print(x.getvalue(), x.tell())",
            "done = x.write('z')",
        ),
        Case(
            "io.TextIOWrapper in memory",
            "x = io.TextIOWrapper(io.BytesIO(b'abc'))",
            "print(x.buffer.tell())",
            recomputed=_OPEN,
        ),
        Case(
            "open(), reading",
            "x = open('f.txt')",
            "print(x.tell())",
            "line = x.readline()",
            recomputed=_OPEN,
        ),
        Case(
            "open(), reading bytes",
            "x = open('f.txt', 'rb')",
            "print(x.tell())",
            "line = x.readline()",
            recomputed=_OPEN,
        ),
        Case(
            "open(), writing",
            "x = open('g.txt', 'w')",
            "print(x.tell())",
            "done = x.write('a')",
            recomputed=_OPEN,
        ),
        Case(
            "file that was closed",
            "with open('f.txt') as x: pass",
            "print(x.closed, x.name, x.mode)",
        ),
        Case(
            "sys.stdout held by an object",
            "x = [sys.stdout]",
            "print(x[0] is sys.stdout, len(x))",
            "x.append(1)",
        ),
        Case(
            "pathlib.Path",
            "x = pathlib.Path('a/b.txt')",
            "print(x, x.suffix, hash(x) == hash(pathlib.Path('a/b.txt')))",
        ),
        Case("pathlib.PureWindowsPath", "x = pathlib.PureWindowsPath('c:/a')", "print(x.drive)"),
        Case(
            "zipfile.ZipInfo",
            "x = zipfile.ZipInfo('a')",
            "print(x.filename, x.comment)",
            "x.comment = b'z'",
        ),
        Case("tarfile.TarInfo", "x = tarfile.TarInfo('a')", "print(x.name, x.size)", "x.size = 3"),
        Case(
            "zipfile.ZipFile, open",
            "with zipfile.ZipFile('z.zip', 'w') as z: z.writestr('a', 'b')\nx = zipfile.ZipFile('z.zip')",
            "print(x.namelist())",
            recomputed=_OPEN,
        ),
        Case(
            "gzip.GzipFile",
            "gzip.open('a.gz', 'wb').close(); x = gzip.open('a.gz')",
            "print(x.tell())",
            recomputed=_OPEN,
        ),
        Case(
            "mmap.mmap",
            "x = mmap.mmap(-1, 10)",
            "print(x[0])",
            "x[0] = 1",
            recomputed="it is memory outside Python",
        ),
        Case(
            "tempfile.TemporaryDirectory",
            "x = tempfile.TemporaryDirectory(dir='.')",
            "print(type(x.name))",
            recomputed="its end deletes the folder",
        ),
        Case(
            "sqlite3.Connection, in memory",
            "x = sqlite3.connect(':memory:'); x.execute('create table t (a)');",
            "print(x.execute('select count(*) from t').fetchone())",
            "done = x.execute('insert into t values (1)')",
            recomputed="functions and settings of a connection cannot be seen",
        ),
        Case(
            "sqlite3.Connection, to a file",
            "x = sqlite3.connect('a.db'); x.execute('create table if not exists t (a)'); x.commit()",
            "print(x.total_changes)",
            recomputed="functions and settings of a connection cannot be seen",
        ),
        Case(
            "sqlite3.Cursor",
            "c = sqlite3.connect(':memory:'); x = c.execute('select 1')",
            "print(x.description[0][0])",
            recomputed="it belongs to a connection",
        ),
        Case(
            "sqlite3.Row",
            "c = sqlite3.connect(':memory:'); c.row_factory = sqlite3.Row; x = c.execute('select 1 as a').fetchone()",
            "print(x['a'])",
            recomputed="it cannot be pickled",
        ),
    ),
)
