"""Functions and classes of the notebook that libraries hold, call, or are patched with."""

from __future__ import annotations

import pytest

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
    Shape(
        "applied to a frame",
        """
import pandas as pd, functools
df = pd.DataFrame({'x': [1, 2, 3], 'g': list('aab')})
--
def scale(v, k=2): return v * k
--
df['y'] = df.x.apply(scale)
--
df['z'] = df.x.map(functools.partial(scale, k=5))
--
df.y.sum()
--
df.z.sum(), df.groupby('g').x.agg(lambda s: scale(s.sum())).tolist(), df.pipe(len)
""",
        {1: ("k=2", "k=3")},
        runs=[1, 2, 3, 4, 5],
    ),
    Shape(
        "np.vectorize, frompyfunc and apply_along_axis",
        """
import numpy as np
def f(a, b=1): return a + b
--
vf = np.vectorize(f, otypes=[float]); uf = np.frompyfunc(lambda a: f(a, 2), 1, 1)
--
vf([1, 2])
--
k = 1
--
vf([3]), uf(np.array([1])), np.apply_along_axis(lambda r: f(r.sum()), 0, np.eye(2))
""",
        {0: ("a + b", "a - b")},
        runs=[0, 1, 2, 4],
        needs=[1, 2],
    ),
    Shape(
        "sklearn transformers and pipelines",
        """
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.linear_model import LinearRegression
X, y = np.arange(8.).reshape(4, 2), np.arange(4.)
--
def logp(a): return np.log1p(a) * base
base = 1
--
class Shift(BaseEstimator, TransformerMixin):
    def __init__(self, by=1): self.by = by
    def fit(self, X, y=None):
        self.fitted_ = True
        return self
    def transform(self, X): return X + self.by
--
pipe = make_pipeline(Shift(by=2), FunctionTransformer(logp), LinearRegression())
--
pipe.fit(X, y);
--
pipe.predict(X).round(6).tolist()
--
round(pipe.score(X, y), 6), type(pipe[0]) is Shift, pipe[1].func is logp
""",
        {1: ("base = 1", "base = 2")},
        runs=[1, 3, 4, 5, 6],
    ),
    Shape(
        "torch modules of the notebook",
        """
import torch
torch.manual_seed(0)
def act(x): return torch.relu(x)
--
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 2)
    def forward(self, x): return act(self.l(x))
--
net = Net()
--
with torch.no_grad(): a = net(torch.ones(1, 2))
--
sum(p.numel() for p in net.parameters())
--
a.shape, isinstance(net, Net), [n for n, _ in net.named_parameters()]
""",
        {0: ("torch.relu(x)", "torch.tanh(x)")},
        runs=[0, 2, 3, 4, 5],
    ),
    Shape(
        "a pandas accessor",
        """
import pandas as pd
@pd.api.extensions.register_dataframe_accessor('geo')
class Geo:
    def __init__(self, df): self.df = df
    def mid(self): return self.df.x.mean() * scale
scale = 1
--
df = pd.DataFrame({'x': [1., 2.]})
--
df.geo.mid()
--
df.geo.mid(), type(df.geo) is Geo
""",
        {0: ("scale = 1", "scale = 3")},
        runs=[0, 1, 2, 3],
        needs=[0],
        apart=True,
    ),
    Shape(
        "a method patched into a library class",
        """
import pandas as pd
def double(self): return self * 2
pd.Series.double = double
--
s = pd.Series([1, 2])
--
s.double().sum()
--
s.double().tolist()
""",
        {0: ("* 2", "* 3")},
        runs=[0, 1, 2, 3],
        needs=[0],
        apart=True,
    ),
    Shape(
        "a library function replaced",
        """
import json
old = json.dumps
--
json.dumps = lambda *a, **k: '<' + old(*a, **k) + '>'
--
json.dumps([1])
--
k = 1
--
json.dumps([k])
""",
        {1: ("'>'", "'/>'")},
        runs=[1, 2, 4],
        needs=[1],
        apart=True,
    ),
    Shape(
        "sorting keys and comparison functions",
        """
import functools, heapq, bisect
def key(t): return (t[1], -t[0])
def cmp(a, b): return (a > b) - (a < b)
--
rows = [(1, 2), (3, 1), (2, 2)]
--
rows.sort(key=key); rows
--
sorted([3, 1], key=functools.cmp_to_key(cmp)), heapq.nlargest(1, rows, key=key)
--
min(rows, key=key), bisect.bisect([1, 2], 2, key=lambda v: cmp(v, 0))
""",
        {0: ("-t[0]", "t[0]")},
        runs=[0, 2, 3, 4],
    ),
    Shape(
        "scipy calls back",
        """
from scipy import optimize
calls = []
def loss(x):
    calls.append(1)
    return (x[0] - target) ** 2
target = 3
--
r = optimize.minimize(loss, [0.], method='Nelder-Mead')
--
round(float(r.x[0]), 2), len(calls) > 3
--
loss([1.]), r.success
""",
        {0: ("target = 3", "target = 4")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "encoders, hooks and defaults of the standard library",
        """
import json, collections, string
class Enc(json.JSONEncoder):
    def default(self, o): return sorted(o) if isinstance(o, set) else super().default(o)
def hook(d): return collections.OrderedDict(d, seen=1)
def zero(): return start
start = 0
--
dd = collections.defaultdict(zero); dd['a'] += 1
--
json.dumps({'s': {2, 1}}, cls=Enc)
--
json.loads('{"a": 1}', object_hook=hook), dd['b'], dd.default_factory is zero
""",
        {0: ("start = 0", "start = 5")},
        runs=[0, 1, 3],
    ),
    Shape(
        "matplotlib formatters",
        """
import matplotlib
matplotlib.use('agg')
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter
def fmt(v, pos): return f'{v:.1f}!'
--
def ticks():
    fig, ax = plt.subplots()
    ax.xaxis.set_major_formatter(FuncFormatter(fmt))
    ax.plot([1, 2])
    fig.canvas.draw()
    texts = [t.get_text()[-1] for t in ax.get_xticklabels()]
    plt.close(fig)
    return texts
--
ticks()[0]
--
k = 1
--
ticks()[0] + str(k)
""",
        {0: ("}!'", "}?'")},
        runs=[0, 2, 4],
    ),
    Shape(
        "dispatch of the standard library",
        """
import copyreg, copy, functools, numbers
class P:
    def __init__(self, x): self.x = x
    def __copy__(self): return P(self.x + bump)
    def __deepcopy__(self, memo): return P(self.x - bump)
    def __format__(self, spec): return f'<{self.x}{spec}>'
    def __sizeof__(self): return 7
bump = 1
--
p = P(5)
--
copy.copy(p).x, copy.deepcopy(p).x, f'{p:!}', p.__sizeof__()
--
k = 1
--
copy.copy(p).x, f'{p}'
""",
        {0: ("bump = 1", "bump = 2")},
        runs=[0, 1, 2, 4],
    ),
    Shape(
        "concurrent calls",
        """
from concurrent.futures import ThreadPoolExecutor
def work(x): return x * factor
factor = 2
--
with ThreadPoolExecutor(2) as pool: done = list(pool.map(work, range(3)))
del pool
--
done
--
with ThreadPoolExecutor(1) as pool: five = pool.submit(work, 5).result()
del pool
print(five, done)
""",
        {0: ("factor = 2", "factor = 3")},
        runs=[0, 1, 2, 3],
        apart=True,
    ),
]
"""Libraries and code of the notebook."""

(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
