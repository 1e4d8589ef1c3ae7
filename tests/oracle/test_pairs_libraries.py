"""Notebooks and what users make of them: objects of libraries over several cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.pairs import Insert, Swap, Write
from tests.oracle.pairs_of_files import Pair, check_pair

pytestmark = pytest.mark.filterwarnings("ignore")

PAIRS = [
    Pair(
        "numba takes in the value of a global when it compiles",
        """
import numba
--
k = 3
--
@numba.njit
def scale(v): return v * k
--
k = 4
--
print(scale(2))
--
k = 7
--
print(scale(2))
--
del scale
""",
        [Write(3, "k = 5")],
        runs=[3, 4, 6],
        needs=("numba",),
    ),
    Pair(
        "numba compiled before the global changed",
        """
import numba
--
k = 3
--
@numba.njit
def scale(v): return v * k
--
print(scale(2))
--
k = 4
--
print(scale(2))
--
del scale
""",
        [Write(5, "print(scale(3))")],
        runs=[5],
        needs=("numba",),
    ),
    Pair(
        "sklearn pipeline C",
        """
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.linear_model import LogisticRegression
--
rng = np.random.default_rng(1)
X = rng.normal(size=(60, 3)); y = (X[:, 0] + 0.1*rng.normal(size=60) > 0).astype(int)
--
Xtr, Xte, ytr, yte = X[:40], X[40:], y[:40], y[40:]
--
C = 1.0
--
pipe = make_pipeline(StandardScaler(), LogisticRegression(C=C))
--
pipe.fit(Xtr, ytr)
print(pipe.score(Xte, yte))
--
pipe[0].mean_.round(3)
--
pipe[-1].coef_.round(3)
--
print(Xtr.shape)
""",
        [Write(3, "C = 0.1")],
        runs=[3, 4, 5, 6, 7],
        needs=("numpy", "sklearn"),
    ),
    Pair(
        "sklearn fit separate cell then refit",
        """
import numpy as np
from sklearn.linear_model import LinearRegression
--
x = np.arange(10.)[:, None]
--
y = 3 * x[:, 0] + 1
--
lr = LinearRegression()
--
lr.fit(x, y)
--
print(lr.coef_.round(3), round(lr.intercept_, 3))
--
lr.predict([[100.]]).round(2)
--
x.mean()
""",
        [Swap(2, "3 *", "4 *")],
        runs=[2, 4, 5, 6],
        needs=("numpy", "sklearn"),
    ),
    Pair(
        "sklearn kmeans set_params",
        """
import numpy as np
from sklearn.cluster import KMeans
--
X = np.array([[0.,0],[0,1],[10,10],[10,11],[20,0],[20,1]])
--
km = KMeans(n_clusters=2, random_state=0, n_init=2)
--
km.set_params(max_iter=50)
--
labels = km.fit_predict(X)
--
print(len(set(labels)))
--
np.sort(km.cluster_centers_.sum(axis=1))
--
X.shape
--
print(km)
""",
        [Swap(3, "max_iter=50", "n_clusters=3")],
        runs=[3, 4, 5, 6, 8],
        needs=("numpy", "sklearn"),
    ),
    Pair(
        "sklearn cross validation scores with text vectoriser",
        """
from sklearn.feature_extraction.text import CountVectorizer
--
docs = ['red apple', 'green apple', 'blue sky', 'red sky']
--
cv = CountVectorizer()
--
M = cv.fit_transform(docs)
--
print(M.shape)
--
sorted(cv.vocabulary_)
--
M.toarray().sum(axis=0)
--
print(len(docs))
--
cv.transform(['red red'] ).toarray()
""",
        [Write(2, "cv = CountVectorizer(ngram_range=(1, 2))")],
        runs=[2, 3, 4, 5, 6, 8],
        needs=("sklearn",),
    ),
    Pair(
        "scipy optimise",
        """
import numpy as np
from scipy import optimize, sparse, stats
--
def rosen(p, a=1):
    return (a - p[0])**2 + 10*(p[1]-p[0]**2)**2
--
res = optimize.minimize(rosen, [0., 0.])
--
print(res.x.round(2), res.success)
--
A = sparse.lil_matrix((3, 3))
--
A[0, 1] = 2; A[2, 2] = 1
--
A.tocsr().sum()
--
stats.norm(0, 1).cdf(1.96).round(4)
""",
        [Swap(1, "a=1", "a=2")],
        runs=[1, 2, 3],
        needs=("numpy", "scipy"),
    ),
    Pair(
        "scipy interpolation object",
        """
import numpy as np
from scipy.interpolate import CubicSpline
--
x = np.arange(5.); y = np.cos(x)
--
cs = CubicSpline(x, y)
--
print(cs(2.5).round(3))
--
d = cs.derivative()
--
print(d(1.).round(3))
--
print(x.sum())
""",
        [Swap(3, "2.5", "3.5")],
        runs=[3],
        needs=("numpy", "scipy"),
    ),
    Pair(
        "torch eval mode and state dict",
        """
import torch, io
from torch import nn
--
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
--
x = torch.ones(1, 3)
--
model.eval()
--
print(model(x).shape)
--
sd = {k: v.clone() for k, v in model.state_dict().items()}
--
with torch.no_grad():
    model[0].bias.fill_(1.0)
--
print(model[0].bias)
--
model.load_state_dict(sd)
--
print(round(model[0].bias.sum().item(), 3))
""",
        [Swap(6, "1.0", "2.0")],
        runs=[6, 7, 8],
        needs=("torch",),
    ),
    Pair(
        "torch custom module forward edit",
        """
import torch
from torch import nn
--
class Net(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.l = nn.Linear(2, h)
    def forward(self, x):
        return torch.relu(self.l(x)).sum(1)
--
torch.manual_seed(0)
net = Net(3)
--
x = torch.ones(2, 2)
--
out = net(x)
--
print(out.detach().numpy().round(3))
--
n = sum(p.numel() for p in net.parameters())
--
print(n)
--
x.mean()
""",
        [Swap(1, "torch.relu", "torch.tanh")],
        runs=[1, 2, 4, 5, 6],
        needs=("numpy", "torch"),
    ),
    Pair(
        "torch dataloader",
        """
import torch
from torch.utils.data import DataLoader, TensorDataset
--
ds = TensorDataset(torch.arange(6.))
--
g = torch.Generator().manual_seed(0)
--
dl = DataLoader(ds, batch_size=2, shuffle=True, generator=g)
--
first = [b[0].tolist() for b in dl]
first
--
second = [b[0].tolist() for b in dl]
second
--
print(len(ds))
--
first == second
""",
        [Swap(3, "batch_size=2", "batch_size=3")],
        runs=[3, 4, 5, 7],
        needs=("torch",),
    ),
    Pair(
        "lxml tree edited in place",
        """
from lxml import etree
--
root = etree.fromstring('<r><a v="1"/></r>')
--
root[0].set('v', '2')
--
b = etree.SubElement(root, 'b'); b.text = 'hey'
--
etree.tostring(root)
--
n = len(root)
--
print(n)
""",
        [Swap(2, "'2'", "'3'")],
        runs=[1, 2, 3, 4, 5],
        needs=("lxml",),
    ),
    Pair(
        "beautifulsoup tree edited in place",
        """
from bs4 import BeautifulSoup
--
html = '<ul><li>a</li><li>b</li></ul>'
--
soup = BeautifulSoup(html, 'html.parser')
--
items = soup.find_all('li')
--
items[0].string = 'A'
--
print(soup)
--
[i.text for i in items]
--
len(html)
""",
        [Swap(4, "'A'", "'Z'")],
        runs=[2, 3, 4, 5, 6],
        needs=("bs4",),
    ),
    Pair(
        "datetime arithmetic",
        """
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo
--
start = datetime(2024, 3, 30, 12, tzinfo=ZoneInfo('Europe/Zurich'))
--
step = timedelta(days=1)
--
times = [start + i * step for i in range(3)]
--
[t.isoformat() for t in times]
--
utc = [t.astimezone(timezone.utc).hour for t in times]
utc
--
start.strftime('%A')
""",
        [Write(2, "step = timedelta(hours=24)")],
        runs=[2],
    ),
    Pair(
        "partial and cached functions",
        """
from functools import partial, lru_cache
import numpy as np
--
@lru_cache(None)
def cost(n): return n * 10
--
tot = sum(cost(i) for i in (1, 2, 1))
--
cost.cache_info().hits
--
double = partial(np.multiply, 2)
--
double([1, 2])
--
print(tot)
""",
        [Swap(4, "2)", "3)")],
        runs=[4, 5],
        needs=("numpy",),
    ),
    Pair(
        "scaler fitted in place inside dict",
        """
import numpy as np
from sklearn.preprocessing import StandardScaler, MinMaxScaler
--
X = np.array([[1.], [3.], [5.]])
--
scalers = {'std': StandardScaler(), 'mm': MinMaxScaler()}
--
for k in scalers: scalers[k].fit(X)
--
print(scalers['std'].mean_)
--
print(scalers['mm'].data_max_)
--
Z = scalers['std'].transform(X).round(3)
Z
--
scalers['mm'].partial_fit([[9.]])
--
print(scalers['mm'].data_max_)
""",
        [Swap(7, "9.", "11.")],
        runs=[7, 8],
        needs=("numpy", "sklearn"),
    ),
    Pair(
        "undo: back to the first version",
        """
import pandas as pd
--
df = pd.DataFrame({'a': [3, 1, 2]})
--
asc = True
--
s = df.sort_values('a', ascending=asc)
--
s.a.tolist()
--
s.iloc[0].a
--
print('ok')
""",
        [Write(2, "asc = False")],
        runs=[2, 3, 4, 5],
        needs=("pandas",),
    ),
    Pair(
        "sympy lambdify edited",
        """
import sympy as sp
--
x = sp.Symbol('x')
--
e = sp.sin(x) ** 2
--
g = sp.lambdify(x, e, 'math')
--
vals = [round(g(i), 3) for i in range(3)]
vals
--
sp.simplify(e + sp.cos(x) ** 2)
--
k = 3
--
print(g(k))
""",
        [Write(6, "k = 4")],
        runs=[6, 7],
        needs=("sympy",),
    ),
    Pair(
        "class holding a model, method insert",
        """
import numpy as np
--
class Trainer:
    def __init__(self): self.hist = []; self.w = np.zeros(2)
    def step(self, g):
        self.w -= 0.1 * np.asarray(g); self.hist.append(self.w.copy())
--
t = Trainer()
--
t.step([1, 2])
--
t.step([3, 4])
--
t.w
--
len(t.hist)
--
np.array(t.hist).shape
""",
        [Insert(5, "t.step([5, 6])")],
        runs=[5, 6, 7, 8],
        needs=("numpy",),
    ),
    Pair(
        "image saved",
        """
from PIL import Image
import numpy as np
--
Image.fromarray(np.full((2, 2), 9, dtype='uint8')).save('a.png')
--
px = np.asarray(Image.open('a.png')).tolist()
--
print(px)
""",
        [Insert(3, "sum(map(sum, px))")],
        runs=[3],
        needs=("PIL", "numpy"),
    ),
    Pair(
        "an engine of a database, not connected yet",
        """
from sqlalchemy import create_engine, text
--
eng = create_engine('sqlite://')
--
n = 1
--
with eng.connect() as c: v = c.execute(text(f'select {n} + 1')).scalar()
--
print(v)
--
del eng, c
""",
        [Write(2, "n = 2")],
        runs=[2, 3, 4],
        needs=("sqlalchemy",),
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_replay_is_a_full_run_and_runs_what_has_to(pair: Pair, root: Path) -> None:
    check_pair(pair, root)
