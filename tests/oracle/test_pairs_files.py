"""Notebooks and what users make of them: data, outputs, scripts and modules in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.pairs import Delete, Insert, Swap, Write
from tests.oracle.pairs_of_files import Pair, check_pair

pytestmark = pytest.mark.filterwarnings("ignore")

SCORES = """\
id,name,score
1,ann,10
2,bob,7
3,cid,9
"""

PAIRS = [
    Pair(
        "csv edited between",
        """
import pandas as pd
--
PATH = 'data/scores.csv'
--
df = pd.read_csv(PATH)
--
df.shape
--
print(df.score.mean())
--
names = df.name.tolist()
--
names
--
print('config', PATH)
""",
        [],
        runs=[2, 3, 4, 5],
        files={"data/scores.csv": SCORES},
        changed={"data/scores.csv": SCORES.replace("7", "8")},
        needs=("pandas",),
    ),
    Pair(
        "csv path changed",
        """
import csv
--
src = 'a.csv'
--
with open(src, newline='') as f:
    rows = list(csv.DictReader(f))
--
len(rows)
--
tot = sum(int(r['score']) for r in rows)
--
print(tot)
--
import os
print(sorted(os.listdir('.')))
""",
        [Write(1, "src = 'b.csv'")],
        runs=[1, 2, 3, 4, 5],
        files={"a.csv": SCORES, "b.csv": SCORES + "4,dan,1\n"},
    ),
    Pair(
        "two files, one edited",
        """
import json, pathlib
--
cfg = json.loads(pathlib.Path('cfg.json').read_text())
--
lines = pathlib.Path('words.txt').read_text().split()
--
k = cfg['k']
--
print(lines[:k])
--
print(len(lines))
--
cfg.get('name', '?')
""",
        [],
        runs=[2, 4, 5],
        files={"cfg.json": '{"k": 2}', "words.txt": "a b c d"},
        changed={"words.txt": "a b c d e"},
    ),
    Pair(
        "json config key added",
        """
import json
--
with open('cfg.json') as f: cfg = json.load(f)
--
lr = cfg['lr']
--
print('lr', lr)
--
epochs = cfg.get('epochs', 1)
--
hist = [lr / (i + 1) for i in range(epochs)]
--
hist
--
print('end')
""",
        [],
        runs=[1, 2, 4, 5, 6],
        files={"cfg.json": '{"lr": 1}'},
        changed={"cfg.json": '{"lr": 1, "epochs": 2}'},
    ),
    Pair(
        "missing file appears",
        """
import os
--
if os.path.exists('override.txt'):
    val = open('override.txt').read().strip()
else:
    val = 'default'
--
print(val)
--
n = 10
--
n + 1
--
print(len(val))
""",
        [],
        runs=[1, 2, 5],
        changed={"override.txt": "mine"},
    ),
    Pair(
        "try except FileNotFound",
        """
import json
--
try:
    with open('cache.json') as f: cache = json.load(f)
except FileNotFoundError:
    cache = {}
--
print(sorted(cache))
--
cache['x'] = 1
--
cache
--
print('ok')
""",
        [],
        runs=[1, 2, 3, 4],
        changed={"cache.json": '{"y": 2}'},
    ),
    Pair(
        "glob gains a file",
        """
from pathlib import Path
import pandas as pd
--
files = sorted(Path('raw').glob('*.csv'))
--
frames = [pd.read_csv(f) for f in files]
--
all_ = pd.concat(frames, ignore_index=True)
--
all_.score.sum()
--
print(len(files))
--
print('title')
""",
        [],
        runs=[1, 2, 3, 4, 5],
        files={"raw/a.csv": SCORES, "raw/b.csv": SCORES},
        changed={"raw/c.csv": SCORES},
        needs=("pandas",),
    ),
    Pair(
        "glob ignores other file",
        """
import glob
--
fs = sorted(glob.glob('raw/*.csv'))
--
n = sum(len(open(f).readlines()) for f in fs)
--
n
--
print(fs)
""",
        [],
        runs=[1],
        files={"raw/a.csv": SCORES},
        changed={"raw/notes.md": "hey"},
    ),
    Pair(
        "append log",
        r"""
from datetime import date
--
with open('run.log', 'w') as f: f.write('start\n')
--
def log(m):
    with open('run.log', 'a') as f: f.write(m + '\n')
--
log('one')
--
x = 2
--
log(f'x={x}')
--
print(open('run.log').read())
--
n = sum(1 for _ in open('run.log'))
n
""",
        [Write(4, "x = 3")],
        runs=[4, 5, 6, 7],
    ),
    Pair(
        "append log insert line",
        r"""
import os
--
with open('run.log', 'w') as f: f.write('start\n')
--
with open('run.log', 'a') as f: f.write('mid\n')
--
size = os.path.getsize('run.log')
size
--
with open('run.log', 'a') as f: f.write('end\n')
--
print(open('run.log').read().split())
--
print('k')
""",
        [Insert(3, "with open('run.log', 'a') as f: f.write('extra\\n')")],
        runs=[3, 4, 5, 6],
    ),
    Pair(
        "append log, cell deleted",
        r"""
with open('t.log', 'w') as f: f.write('')
--
with open('t.log', 'a') as f: f.write('a\n')
--
with open('t.log', 'a') as f: f.write('b\n')
--
with open('t.log', 'a') as f: f.write('c\n')
--
lines = open('t.log').read().split()
--
lines
--
print(len('abc'))
""",
        [Delete(2)],
        runs=[2, 3, 4],
    ),
    Pair(
        "output csv deleted outside",
        """
import pandas as pd
--
df = pd.DataFrame({'a': [1, 2, 3]})
--
df.to_csv('out.csv', index=False)
--
back = pd.read_csv('out.csv')
--
back.equals(df)
--
print(df.a.sum())
""",
        [],
        runs=[],
        changed={"out.csv": None},
        needs=("pandas",),
    ),
    Pair(
        "output altered outside",
        """
import json
--
res = {'acc': 0.9}
--
with open('res.json', 'w') as f: json.dump(res, f)
--
with open('res.json') as f: again = json.load(f)
--
print(again)
--
res['acc'] > .5
""",
        [],
        runs=[],
        changed={"res.json": "{}"},
    ),
    Pair(
        "write then overwrite in later cell",
        """
from pathlib import Path
--
p = Path('state.txt')
--
p.write_text('one');
--
first = p.read_text()
--
p.write_text('two');
--
second = p.read_text()
--
print(first, second)
--
len(first)
""",
        [Swap(4, "'two'", "'three'")],
        runs=[4, 5, 6],
    ),
    Pair(
        "write then overwrite, first edited",
        """
from pathlib import Path
--
p = Path('state.txt')
--
p.write_text('one');
--
first = p.read_text()
--
p.write_text('two');
--
second = p.read_text()
--
print(first, second)
--
len(second)
""",
        [Swap(2, "'one'", "'uno'")],
        runs=[2, 3, 6],
    ),
    Pair(
        "pickle round trip",
        """
import pickle
--
model = {'w': [1, 2], 'b': 0}
--
with open('m.pkl', 'wb') as f: pickle.dump(model, f)
--
with open('m.pkl', 'rb') as f: m2 = pickle.load(f)
--
m2['w'].append(3)
--
print(m2, model)
--
m2 is model
""",
        [Swap(1, "'b': 0", "'b': 1")],
        runs=[1, 2, 3, 4, 5, 6],
    ),
    Pair(
        "hdf5 with h5py",
        """
import h5py, numpy as np
--
with h5py.File('d.h5', 'w') as f:
    f['x'] = np.arange(4)
    f.attrs['v'] = 1
--
with h5py.File('d.h5', 'a') as f: f['y'] = np.ones(2)
--
with h5py.File('d.h5', 'r') as f: keys = sorted(f)
--
keys
--
with h5py.File('d.h5') as f: s = int(f['x'][:].sum())
--
print(s)
""",
        [Swap(2, "np.ones(2)", "np.ones(3)")],
        runs=[2, 3, 5],
        needs=("h5py", "numpy"),
    ),
    Pair(
        "zip written and listed",
        """
import zipfile
--
info = zipfile.ZipInfo('a.txt'); 
--
with zipfile.ZipFile('z.zip', 'w') as z: z.writestr(info, 'hello')
--
with zipfile.ZipFile('z.zip') as z: names = z.namelist()
--
names
--
print(zipfile.ZipFile('z.zip').read('a.txt'))
--
x = 1
""",
        [Swap(2, "'hello'", "'hallo'")],
        runs=[2, 3, 5],
    ),
    Pair(
        "gzip and text encodings",
        r"""
import gzip, io
--
data = 'grüezi\n' * 2
--
with open('t.txt', 'w', encoding='utf-8') as f: f.write(data)
--
raw = open('t.txt', 'rb').read()
--
len(raw)
--
z = gzip.compress(raw, mtime=0)
--
open('t.gz', 'wb').write(z);
--
print(gzip.open('t.gz', 'rt', encoding='utf-8').read())
""",
        [Swap(1, "* 2", "* 3")],
        runs=[1, 2, 3, 4, 5, 6, 7],
    ),
    Pair(
        "temporary file used within a cell",
        """
import tempfile, os
--
def roundtrip(s):
    with tempfile.NamedTemporaryFile('w+', suffix='.txt') as f:
        f.write(s); f.seek(0); return f.read()
--
a = roundtrip('abc')
--
a
--
b = roundtrip(a * 2)
--
print(len(b))
--
print('x')
""",
        [Swap(2, "'abc'", "'abcd'")],
        runs=[2, 3, 4, 5],
    ),
    Pair(
        "polars scan csv",
        """
import polars as pl
--
lf = pl.scan_csv('d.csv')
--
q = lf.filter(pl.col('score') > 8)
--
out = q.collect()
--
out.height
--
print('p')
""",
        [],
        runs=[3, 4],
        files={"d.csv": SCORES},
        changed={"d.csv": SCORES + "4,dan,12\n"},
        needs=("polars",),
    ),
    Pair(
        "numpy fromfile tofile",
        """
import numpy as np
--
np.arange(4, dtype='i4').tofile('a.bin')
--
a = np.fromfile('a.bin', dtype='i4')
--
a
--
a[0] = 9; a.tofile('b.bin')
--
print(np.fromfile('b.bin', dtype='i4').sum())
--
s = 's'
""",
        [Swap(4, "9", "7")],
        runs=[4, 5],
        needs=("numpy",),
    ),
    Pair(
        "input file read by C reader deep path",
        """
import pandas as pd, os
--
root = os.path.join('data', '2024')
--
parts = [pd.read_csv(os.path.join(root, m, 's.csv')) for m in ('jan', 'feb')]
--
df = pd.concat(parts)
--
df.score.sum()
--
print(root)
""",
        [],
        runs=[2, 3, 4],
        files={"data/2024/jan/s.csv": SCORES, "data/2024/feb/s.csv": SCORES},
        changed={"data/2024/feb/s.csv": SCORES.replace("9", "1")},
        needs=("pandas",),
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_replay_is_a_full_run_and_runs_what_has_to(pair: Pair, root: Path) -> None:
    check_pair(pair, root)
