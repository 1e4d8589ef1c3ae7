"""Apache Arrow."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "PyArrow",
    requires=("pyarrow",),
    prelude="import pyarrow as pa",
    cases=(
        Case("Array", "x = pa.array([1, None, 3])", "print(x)"),
        Case(
            "Array over NumPy's memory",
            "import numpy as np\na = np.arange(3); x = pa.array(a)",
            "print(x)",
            "a[0] = 7",
            recomputed="two libraries share one memory",
        ),
        Case("ChunkedArray", "x = pa.chunked_array([[1], [2, 3]])", "print(x)"),
        Case("DictionaryArray", "x = pa.array(['a', 'b', 'a']).dictionary_encode()", "print(x)"),
        Case("StructArray", "x = pa.array([{'a': 1}, {'a': None}])", "print(x)"),
        Case("Table", "x = pa.table({'a': [1, 2], 's': ['u', None]})", "print(x)"),
        Case("Table, a slice", "t = pa.table({'a': range(100)}); x = t.slice(10, 3)", "print(x)"),
        Case("RecordBatch", "x = pa.RecordBatch.from_pydict({'a': [1, 2]})", "print(x)"),
        Case(
            "Schema",
            "x = pa.schema([('a', pa.int8())], metadata={'k': 'v'})",
            "print(x, x.metadata)",
        ),
        Case("data type", "x = pa.list_(pa.timestamp('ns', 'UTC'))", "print(x)"),
        Case("Scalar", "x = pa.scalar(3)", "print(x)"),
        Case("Buffer", "x = pa.py_buffer(b'abc')", "print(x.to_pybytes())"),
        Case(
            "BufferReader",
            "x = pa.BufferReader(b'abcd')",
            "print(x.tell())",
            "x.read(2)",
            recomputed="an open file",
        ),
        Case(
            "ParquetFile",
            "import pyarrow.parquet as pq\nx = pq.ParquetFile('p.parquet')",
            "print(x.read())",
            recomputed="an open file",
            prepare="import pyarrow.parquet as pq\npq.write_table(pa.table({'a': [1]}), 'p.parquet')",
        ),
        Case(
            "Dataset",
            "import pyarrow.dataset as ds\nx = ds.dataset(pa.table({'a': [1, 2]}))",
            "print(x.to_table())",
            recomputed="it does not pickle",
        ),
        Case(
            "Dataset of files",
            "import pyarrow.dataset as ds\nx = ds.dataset('q.parquet')",
            "print(x.to_table())",
            fills="it fills caches",
            prepare="import pyarrow.parquet as pq\npq.write_table(pa.table({'a': [1]}), 'q.parquet')",
        ),
        Case(
            "compute expression", "import pyarrow.compute as pc\nx = pc.field('a') > 1", "print(x)"
        ),
    ),
)
