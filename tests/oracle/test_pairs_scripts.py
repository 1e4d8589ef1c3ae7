"""Notebooks and what users make of them: folders, scripts, modules and processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.pairs import Swap, Write
from tests.oracle.pairs_of_files import Pair, check_pair

pytestmark = pytest.mark.filterwarnings("ignore")

PAIRS = [
    Pair(
        "cwd changed",
        """
import os
--
os.makedirs('work', exist_ok=True)
--
os.chdir('work')
--
open('f.txt', 'w').write('in work');
--
print(os.path.basename(os.getcwd()))
--
os.chdir('..')
--
print(os.path.exists('work/f.txt'), os.path.exists('f.txt'))
--
x = 3
--
open('work/f.txt').read()
""",
        [Swap(3, "'in work'", "'at work'")],
        runs=[3, 8],
    ),
    Pair(
        "cwd target edited",
        """
import os
--
for d in ('a', 'b'):
    os.makedirs(d, exist_ok=True); open(f'{d}/n.txt', 'w').write(d)
--
os.chdir('a')
--
t = open('n.txt').read()
--
print(t)
--
os.chdir('..')
--
print(sorted(os.listdir('.')))
--
k = 1
""",
        [Write(2, "os.chdir('b')")],
        runs=[2, 3, 4, 5],
    ),
    Pair(
        "contextlib chdir",
        """
import contextlib, os
from pathlib import Path
--
Path('d').mkdir(exist_ok=True); Path('d/v.txt').write_text('5')
--
with contextlib.chdir('d'): v = int(open('v.txt').read())
--
v
--
w = v + 1
--
print(w, Path.cwd().name != 'd')
""",
        [Swap(1, "'5'", "'6'")],
        runs=[1, 2, 3, 4, 5],
    ),
    Pair(
        "module written then imported",
        r"""
src = 'def f(x):\n    return x + 1\n'
--
open('helper.py', 'w').write(src);
--
import sys; sys.path.insert(0, '.')
--
import helper
--
helper.f(1)
--
y = [helper.f(i) for i in range(3)]
--
print(y)
--
k = 0
""",
        [Swap(0, "x + 1", "x + 2")],
        runs=[0, 1, 3, 4, 5, 6],
    ),
    Pair(
        "local module edited outside",
        """
from utils import scale, NAME
--
xs = [1, 2, 3]
--
ys = [scale(x) for x in xs]
--
ys
--
print(NAME)
--
sum(xs)
""",
        [],
        runs=[0, 2, 3],
        files={"utils.py": "NAME = 'u'\ndef scale(x):\n    return 2 * x\n"},
        changed={"utils.py": "NAME = 'u'\ndef scale(x):\n    return 3 * x\n"},
    ),
    Pair(
        "local package, other submodule edited",
        """
from pkg.a import fa
--
from pkg import b
--
r = fa(2)
--
r
--
s = b.fb(2)
--
s
--
print(r + s)
""",
        [],
        runs=[1, 4, 5, 6],
        files={
            "pkg/__init__.py": "",
            "pkg/a.py": "def fa(x): return x\n",
            "pkg/b.py": "def fb(x): return x * 2\n",
        },
        changed={"pkg/b.py": "def fb(x): return x * 5\n"},
    ),
    Pair(
        "runpy script",
        """
import runpy
--
ns = runpy.run_path('script.py')
--
ns['out']
--
k = ns['out'] * 2
--
print(k)
--
print('z')
""",
        [],
        runs=[1, 2, 3, 4],
        files={"script.py": "a = 2\nout = a ** 3\n"},
        changed={"script.py": "a = 3\nout = a ** 3\n"},
    ),
    Pair(
        "exec of a source file",
        """
code = open('defs.py').read()
--
exec(code)
--
g(2)
--
z = g(3)
--
print(z)
--
print(1)
""",
        [],
        runs=[0, 1, 2, 3, 4],
        files={"defs.py": "def g(x): return x + 10\n"},
        changed={"defs.py": "def g(x): return x + 20\n"},
    ),
    Pair(
        "subprocess on a data file",
        """
import subprocess, sys
--
n = subprocess.run(['wc', '-l', 'd.txt'], capture_output=True, text=True).stdout
--
print(n)
--
k = int(n.split()[0])
--
k
--
print('fixed')
""",
        [],
        runs=[1, 2, 3, 4],
        files={"d.txt": "a\nb\n"},
        changed={"d.txt": "a\nb\nc\n"},
    ),
    Pair(
        "subprocess script written by notebook",
        """
import subprocess, sys
--
body = 'print(6 * 7)'
--
open('job.py', 'w').write(body);
--
out = subprocess.run([sys.executable, 'job.py'], capture_output=True, text=True).stdout
--
out.strip()
--
print(len(body))
--
k = 2
""",
        [Swap(1, "6 * 7", "6 * 8")],
        runs=[1, 2, 3, 4, 5],
    ),
    Pair(
        "subprocess produces a file",
        r"""
import subprocess
--
open('in.txt', 'w').write('b\na\n');
--
subprocess.run('sort in.txt > sorted.txt', shell=True, check=True);
--
res = open('sorted.txt').read().split()
--
res
--
x = 5
print(x)
""",
        [Swap(1, "'b\\na\\n'", "'c\\na\\n'")],
        runs=[1, 2, 3, 4],
    ),
    Pair(
        "subprocess output deleted outside",
        r"""
import subprocess
--
open('in.txt', 'w').write('b\na\n');
--
subprocess.run('sort in.txt > sorted.txt', shell=True, check=True);
--
res = open('sorted.txt').read().split()
--
res
--
print(5)
""",
        [],
        runs=[],
        changed={"sorted.txt": None},
    ),
    Pair(
        "subprocess in folder with module",
        """
import subprocess, sys
--
def run(*a):
    done = subprocess.run([sys.executable, *a], capture_output=True, text=True)
    return done.stdout.strip()
--
v = run('main.py', '3')
--
v
--
w = run('-c', 'print(1)')
--
print(w)
--
print(v + w)
""",
        [],
        runs=[2, 3, 6],
        files={
            "main.py": "import sys, lib\nprint(lib.f(int(sys.argv[1])))\n",
            "lib.py": "def f(x): return x * 2\n",
        },
        changed={"lib.py": "def f(x): return x * 3\n"},
    ),
    Pair(
        "os.walk tree",
        """
import os
--
tree = {r: sorted(f) for r, d, f in sorted(os.walk('proj'))}
--
sorted(tree)
--
n = sum(len(f) for f in tree.values())
--
print(n)
--
q = 9
""",
        [],
        runs=[1, 2, 3, 4],
        files={"proj/a/x.py": "1", "proj/b/y.py": "2"},
        changed={"proj/a/z.py": "3"},
    ),
    Pair(
        "checkpoint files of a loop",
        """
import json, os
--
os.makedirs('ck', exist_ok=True)
--
def train(n):
    for i in range(n):
        with open(f'ck/{i}.json', 'w') as f: json.dump({'i': i, 'loss': 1 / (i + 1)}, f)
--
train(3)
--
last = sorted(os.listdir('ck'))[-1]
--
print(last)
--
with open(f'ck/{last}') as f: st = json.load(f)
--
st
""",
        [Write(3, "train(4)")],
        runs=[3, 4, 5, 6, 7],
    ),
    Pair(
        "cached download pattern",
        """
import os
--
CACHE = 'cache/data.txt'
--
def fetch():
    if os.path.exists(CACHE): return open(CACHE).read()
    os.makedirs('cache', exist_ok=True)
    open(CACHE, 'w').write('payload')
    return open(CACHE).read()
--
d = fetch()
--
d
--
e = fetch()
--
print(d == e)
--
print('x')
""",
        [Swap(2, "'payload'", "'other'")],
        runs=[2, 3, 5],
    ),
    Pair(
        "cache present on second run",
        """
import os
--
def fetch():
    if os.path.exists('c.txt'): return 'hit ' + open('c.txt').read()
    open('c.txt', 'w').write('p'); return 'miss'
--
a = fetch()
--
print(a)
--
b = fetch()
--
print(b)
""",
        [],
        runs=[2, 3],
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_replay_is_a_full_run_and_runs_what_has_to(pair: Pair, root: Path) -> None:
    check_pair(pair, root)
