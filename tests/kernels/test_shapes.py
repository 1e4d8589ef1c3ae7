"""Laws L1 and L3 for the ways in which cells run: awaiting, magics, displays, threads, widgets.

Each shape is a few cells, one of which says `k = 1`. All shapes of a group make one
notebook: it is audited, `k` is edited, and what the replay shows is what a plain kernel
shows for the edited notebook.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .front_page import Cell, run_page

Shapes = dict[str, list[Cell]]

EXECUTION: Shapes = {
    "await": [
        "import asyncio",
        "async def co(x):\n    await asyncio.sleep(0.01)\n    return x",
        "r = await co(5)",
        "k = 1",
        "print(r, k)",
    ],
    "asynchronous iteration": [
        "async def numbers():\n    for i in range(3): yield i\n[x async for x in numbers()]",
        "k = 1",
        "k, [x async for x in numbers()]",
    ],
    "an awaited value that is not stored": [
        "async def numbers():\n    return iter(range(9))\nit = await numbers()",
        "next(it)",
        "k = 1",
        "print(next(it), k)",
    ],
    "task": [
        "import asyncio\nlog = []\nasync def later():\n    for i in range(3):\n"
        "        await asyncio.sleep(0.05); log.append(i); print('task', i)\n"
        "t = asyncio.create_task(later())",
        "k = 1",
        "await t",
        "print(log, k)",
    ],
    "task nobody awaits": [
        "log = []\nasync def later():\n    await asyncio.sleep(0.05); log.append('done')\n"
        "asyncio.ensure_future(later());",
        "k = 1",
        "await asyncio.sleep(0.3)",
        "print(log, k)",
    ],
    "call later": [
        "log = []\nasyncio.get_running_loop().call_later(0.05, log.append, 5);",
        "k = 1",
        "await asyncio.sleep(0.3)",
        "print(log, k)",
    ],
    "thread": [
        "import threading\nlog = []; go = threading.Event()\n"
        "def work():\n    go.wait(); log.append(1); print('thread')\n"
        "th = threading.Thread(target=work); th.start()",
        "k = 1\nprint('meanwhile')",
        "go.set(); th.join()",
        "print(log, k)",
    ],
    "exceptions": [
        "try:\n    1 / 0\nexcept ZeroDivisionError as e: caught = e",
        "k = 1",
        "print(repr(caught), k)",
    ],
    "errors half way": ["l = [1]", "l.append(2); 1 / 0", "k = 1", "print(l, k)"],
    "exit": [
        "import sys\nl = [1]",
        "l.append(2); sys.exit(3)",
        "k = 1",
        "print(l, k)",
        "raise SystemExit",
    ],
    "input": [("x = input('n? ')", "42"), "k = 1", "print(x, k)"],
    "run a cell": [
        "get_ipython().run_cell('inner = [5]; print(inner)');",
        "inner.append(6)",
        "k = 1",
        "print(inner, k)",
    ],
    "the shell": ["ip = get_ipython()", "ip.user_ns['v'] = [1]", "k = 1", "v.append(k); print(v)"],
    "an interrupt half way": [
        "import os, signal, time\nl = []",
        "l.append(1); os.kill(os.getpid(), signal.SIGINT); time.sleep(5); l.append(2)",
        "k = 1",
        "print(l, k)",
    ],
    "a signal handler": [
        "import os, signal, time\nhits = []\n"
        "_old = signal.signal(signal.SIGUSR1, lambda *_: hits.append(1)); del _old",
        "k = 1",
        "os.kill(os.getpid(), signal.SIGUSR1); time.sleep(0.05); print(hits, k)",
    ],
    "another folder": [
        "import os; here = os.getcwd(); os.mkdir('sub'); os.chdir('sub')",
        "k = 1",
        "print(os.path.basename(os.getcwd()), k)",
        "os.chdir(here); os.rmdir('sub')",
    ],
    "a module of magics": ["%load_ext autoreload\n%autoreload 0", "k = 1", "print(k)"],
}

MAGICS: Shapes = {
    "time": ["%time x = 1", "%%time\ny = 2", "k = 1", "print(x, y, k)"],
    "timeit": ["%%timeit -n1 -r1\npass", "%timeit -n1 -r1 -q y = 1", "k = 1", "print(k)"],
    "capture": [
        "%%capture cap\nprint('in'); x = 3",
        "k = 1",
        "print(x, k, cap.stdout)",
        "cap.show()",
    ],
    "scripts": [
        "%%bash\necho hi",
        "%%sh --out out\necho captured",
        "%%script bash\necho script",
        "k = 1",
        "print(out, k)",
    ],
    "shell": ["!touch f", "k = 1", "!ls f", "files = !ls f", "print(files, k)"],
    "languages": [
        "%%html\n<b>hi</b>",
        "%%javascript\n1",
        "%%latex\nx",
        "%%markdown\n# x",
        "%%svg\n<svg/>",
        "k = 1",
        "print(k)",
    ],
    "write a file": ["%%writefile w.txt\nhello", "k = 1", "print(open('w.txt').read(), k)"],
    "profile": ["%%capture\n%prun -q sum([1])", "k = 1", "print(k)"],
    "environment": [
        "import os",
        "%env FOO=bar",
        "k = 1",
        "!echo $FOO",
        "print(os.environ['FOO'], k)",
    ],
    "precision": ["%precision 3", "3.14159", "k = 1", "2.71828 + k", "%precision"],
    "tracebacks": ["%xmode Minimal", "1 / 0", "%xmode Context", "k = 1", "print(k)"],
    "who": ["w = 1", "k = 1", "%who_ls str"],
    "history": ["%history -l 1", "k = 1", "In[-2]", "print(k)"],
    "alias": ["%alias hello echo hi", "hello 5", "k = 1", "print(k)"],
    "a line magic of one's own": [
        "from IPython.core.magic import register_line_magic, register_cell_magic\n"
        "factor = 2; log = []\n@register_line_magic\n"
        "def times(line):\n    log.append(line); return int(line) * factor",
        "%times 5",
        "k = 1",
        "print(log, k)",
        "%times 6",
    ],
    "a cell magic of one's own": [
        "@register_cell_magic\ndef upper(line, cell):\n    print(line, cell.upper())\n"
        "    get_ipython().user_ns['made'] = cell",
        "%%upper xx\nbody",
        "k = 1",
        "print(made, k)",
    ],
    "a class of magics": [
        "from IPython.core.magic import Magics, magics_class, line_magic\n@magics_class\n"
        "class Counting(Magics):\n    n = 0\n    @line_magic\n    def count(self, line):\n"
        "        self.n += 1; return self.n",
        "get_ipython().register_magics(Counting)",
        "%count",
        "k = 1",
        "%count",
        "%count k",
        "print(k)",
    ],
}

DISPLAY: Shapes = {
    "handle": [
        "from IPython.display import display, update_display, clear_output, HTML, Latex",
        "h = display(1, display_id=True)",
        "h.update(2)",
        "k = 1",
        "h.update(3)",
        "print(k)",
    ],
    "two displays of one id": [
        "display('a', display_id='d'); display('b', display_id='d')",
        "update_display('c', display_id='d')",
        "k = 1",
        "update_display(f'd{k}', display_id='d')",
    ],
    "clearing": [
        "for i in range(3):\n    clear_output(wait=True); print(i)",
        "display(1); clear_output(); display(2); clear_output(wait=True)",
        "k = 1",
        "print(k)",
    ],
    "progress": [
        "from tqdm import tqdm\nfor i in tqdm(range(3), bar_format='{l_bar}{n_fmt}'): pass",
        "for i in range(3): print(f'\\r{i}', end='')",
        "k = 1",
        "print(k)",
    ],
    "rich": [
        "display(HTML('<b>1</b>'), Latex('$x$')); HTML('<i>2</i>')",
        "class P:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n0000'\n"
        "    def _repr_mimebundle_(self, **k): return {'text/plain': 'p', 'x/y': {'a': 1}}",
        "P()",
        "k = 1",
        "print(k)",
    ],
    "a representation that raises": [
        "class R:\n    def __repr__(self): return 'R'\n"
        "    def _repr_html_(self): raise ValueError('no')",
        "R()",
        "k = 1",
        "print(k)",
    ],
    "figures": [
        "%matplotlib inline\nimport matplotlib.pyplot as plt",
        "plt.plot([1, 2]);",
        "fig, ax = plt.subplots(); ax.plot([2, 1]);",
        "k = 1",
        "ax.set_title(str(k)); fig",
    ],
    "warnings and logs": [
        "import warnings, logging\nwarnings.warn('one')",
        "logging.warning('log')",
        "def careless(): warnings.warn('two')",
        "careless()",
        "k = 1",
        "careless(); print(k)",
    ],
    "interleaved streams": [
        "import sys\nfor i in range(3): print(i); print(-i, file=sys.stderr)",
        "k = 1",
        "print(k, file=sys.stderr)",
    ],
    "a replaced stream": [
        "import io\nold = sys.stdout; sys.stdout = io.StringIO()\nprint('hidden')\n"
        "buf = sys.stdout; sys.stdout = old",
        "import contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f: print('x')",
        "k = 1",
        "print(repr(buf.getvalue()), f.getvalue(), k)",
    ],
    "large": ["print('x' * 3_000_000)", "k = 1", "print(k)"],
    "results": ["[1, 2]", "_.append(3)", "k = 1", "_oh and 5", "len(Out) > 0, k"],
    "every expression": [
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.ast_node_interactivity = 'all'",
        "1\n2",
        "InteractiveShell.ast_node_interactivity = 'last_expr'",
        "k = 1",
        "print(k)",
    ],
}

WIDGETS: Shapes = {
    "slider": [
        "import ipywidgets as W\ns = W.IntSlider(value=3); s",
        "s.value = 5",
        "k = 1",
        "s.value, k",
    ],
    "output widget": ["o = W.Output()\nwith o: print('inside')\no", "k = 1", "len(o.outputs), k"],
    "callback": [
        "log = []; b = W.IntText()\nb.observe(lambda c: log.append(c['new']), 'value')",
        "b.value = 7",
        "k = 1",
        "log, k",
    ],
    "interact": [
        "from ipywidgets import interact\nseen = []\n@interact(x=(0, 5))\n"
        "def f(x): seen.append(x); return x",
        "k = 1",
        "seen, k",
    ],
}

HOOKS: Shapes = {
    "a callback after every cell": [
        "count = []\ndef note(*_): count.append(1)\n"
        "get_ipython().events.register('post_run_cell', note)",
        "k = 1",
        "len(count) > 0",
        "get_ipython().events.unregister('post_run_cell', note)",
        "print(k)",
    ],
    "a transformer of the input": [
        "def five(lines): return [line.replace('FIVE', '5') for line in lines]\n"
        "get_ipython().input_transformers_cleanup.append(five)",
        "x = FIVE",
        "k = 1",
        "print(x + FIVE, k)",
        "get_ipython().input_transformers_cleanup.remove(five)",
    ],
    "a script": [
        "%%writefile script.py\nvalues = [1]\ndef given(): return values",
        "%run script.py",
        "k = 1",
        "values.append(k); print(given())",
    ],
    "a wildcard": ["found = 1", "k = 1", "foun*?", "print(k)"],
    "a stream of one's own": [
        "import sys\nclass Tee:\n    def __init__(s, o): s.o = o; s.log = []\n"
        "    def write(s, x): s.log.append(x); return s.o.write(x)\n"
        "    def flush(s): s.o.flush()\n"
        "old = sys.stdout; sys.stdout = Tee(old)",
        "print('teed')",
        "k = 1",
        "print(k)",
        "tee = sys.stdout; sys.stdout = old",
        "print(tee.log[:2], k)",
    ],
    "an import that warns": ["from tqdm.autonotebook import tqdm", "k = 1", "print(k)"],
}

GROUPS = {
    "execution": EXECUTION,
    "magics": MAGICS,
    "display": DISPLAY,
    "widgets": WIDGETS,
    "hooks": HOOKS,
}


@pytest.mark.parametrize("group", GROUPS)
def test_a_replay_shows_what_a_plain_kernel_shows(group: str, tmp_path: Path) -> None:
    before = [cell for shape in GROUPS[group].values() for cell in shape]
    after = [c.replace("k = 1", "k = 2") if isinstance(c, str) else c for c in before]
    store = tmp_path / "store"
    run_page("audit", before, tmp_path / "ours", store=store)
    expected = run_page("plain", after, tmp_path / "plain").comparable()
    for plan in (False, True):
        page = run_page("replay", after, tmp_path / "ours", store=store, plan=plan)
        for cell, got, wanted in zip(after, page.comparable(), expected, strict=True):
            assert got == wanted, (plan, cell)
        assert "reused" in page.actions


EDITS = {
    "a line magic": (
        "from IPython.core.magic import register_line_magic\n@register_line_magic\n"
        "def shout(line): return line.upper()",
        ("upper", "title"),
        "%shout abc def",
    ),
    "a line magic without a name": (
        "from IPython.core.magic import register_line_magic\n@register_line_magic\n"
        "def quiet(line): return line.lower()\ndel quiet",
        ("lower", "title"),
        "%quiet ABC DEF",
    ),
    "what a line magic uses": ("base = 'one'", ("one", "two"), "%based"),
    "a cell magic": (
        "from IPython.core.magic import register_cell_magic\n@register_cell_magic\n"
        "def loud(line, cell): print(cell.upper())",
        ("upper", "title"),
        "%%loud\nabc def",
    ),
    "an alias": ("%alias greet echo hello", ("hello", "bye"), "%greet you"),
    "precision": ("%precision 3", ("3", "2"), "3.14159"),
}


def test_an_edited_magic_runs_the_cells_that_use_it(tmp_path: Path) -> None:
    based = (
        "from IPython.core.magic import register_line_magic\n"
        "@register_line_magic\ndef based(line): return base"
    )
    before, after = [based], [based]
    for define, (old, new), use in EDITS.values():
        before += [define, use]
        after += [define.replace(old, new), use]
    store = tmp_path / "store"
    run_page("audit", before, tmp_path / "ours", store=store)
    expected = run_page("plain", after, tmp_path / "plain").comparable()
    page = run_page("replay", after, tmp_path / "ours", store=store)
    for cell, got, wanted in zip(after, page.comparable(), expected, strict=True):
        assert got == wanted, cell
