"""Session effects: what only running a cell again brings back."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbrewind.model.records import SessionEffects
from nbrewind.state.effects import FIGURES, EffectTracker

ORDINARY = [
    "a = np.arange(10.0); a.mean(), a.std(), np.median(a)",
    "np.linalg.svd(np.random.rand(4, 4))",
    "np.fft.rfft(np.arange(8))",
    "np.random.default_rng(1).normal(size=3)",
    "np.polynomial.Polynomial([1, 2]).roots()",
    "np.testing.assert_allclose(1, 1)",
    "np.ma.masked_array([1, 2], mask=[0, 1]).sum()",
    "np.vectorize(lambda x: x + 1)([1, 2])",
    "np.einsum('ij,jk', np.eye(2), np.eye(2))",
    "np.errstate(divide='ignore').__enter__()",
    "df = pd.DataFrame({'k': list('aab'), 'x': [1, 2, 3.0], 'n': [1, 2, 3]})",
    "df.groupby('k').agg({'x': ['mean', 'sum']})",
    "df.merge(df, on='k').pivot_table(index='k', values='x_x')",
    "df['k'].str.upper().astype('category').cat.codes",
    "pd.to_datetime(['2020-01-01']).tz_localize('UTC'); pd.date_range('2020', periods=3)",
    "pd.Series([1, 2], index=pd.date_range('2020', periods=2)).resample('D').mean()",
    "df[['x']].rolling(2).mean(); df['x'].ewm(2).mean()",
    "df.to_csv(io.StringIO()); pd.read_csv(io.StringIO('a,b\\n1,2'))",
    "df.to_json(); pd.read_json(io.StringIO('[{\"a\": 1}]'))",
    "df.query('x > 1').eval('x + n')",
    "df.style",
    "df._repr_html_(); repr(df); df.describe(); df.info(buf=io.StringIO())",
    "pd.get_dummies(df); pd.cut(df['x'], 2); df.melt(); df.stack(); df.T",
    "pd.concat([df, df]).drop_duplicates().sort_values('x').reset_index()",
    "df.plot(); plt.close('all')",
    "df.hist(); df.plot.scatter('x', 'n'); plt.close('all')",
    "fig, ax = plt.subplots(2, 2); ax[0, 0].plot([1, 2]); fig.savefig(io.BytesIO())",
    "plt.imshow(np.eye(3)); plt.colorbar(); plt.savefig(io.BytesIO(), format='svg')",
    "fig = plt.figure(); fig.add_subplot(projection='3d').scatter([1], [2], [3])",
    "fig.add_subplot(projection='polar'); fig.savefig(io.BytesIO(), format='pdf')",
    "plt.style.use('ggplot'); plt.title('$x^2$'); plt.legend(['a']); plt.tight_layout()",
    "with plt.rc_context({'font.size': 5}): plt.hist([1, 2, 3])",
    "plt.close('all'); plt.boxplot([1, 2, 3]); plt.contourf(np.eye(3))",
    "X, y = sklearn.datasets.make_classification(60, random_state=0)",
    "model = LogisticRegression().fit(X, y); repr(model); model._repr_html_()",
    "RandomForestClassifier(5, random_state=0).fit(X, y).feature_importances_",
    "make_pipeline(StandardScaler(), PCA(2), LogisticRegression()).fit(X, y).score(X, y)",
    "GridSearchCV(LogisticRegression(), {'C': [0.1, 1]}, cv=3).fit(X, y).best_params_",
    "cross_val_score(LogisticRegression(), X, y, cv=3); train_test_split(X, y)",
    "sklearn.metrics.classification_report(y, model.predict(X)); sklearn.clone(model)",
    "KMeans(2, n_init=1, random_state=0).fit(X); ColumnTransformer([('a', PCA(1), [0, 1])]).fit(X)",
    "HistGradientBoostingClassifier(max_iter=3).fit(X, y)",
    "import scipy.stats; scipy.stats.norm.fit([1, 2, 3]); scipy.stats.ttest_ind([1, 2], [2, 4])",
    "import scipy.optimize as o; o.minimize(lambda v: (v**2).sum(), [1.0, 2.0])",
    "import scipy; scipy.interpolate.interp1d([0, 1], [0, 1])(0.5); scipy.sparse.eye(3).tocsr()",
    "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int = 0\nP(1)",
    "import collections; T = collections.namedtuple('T', 'a b'); T(1, 2)",
    "import concurrent.futures as cf\nwith cf.ThreadPoolExecutor() as p: list(p.map(abs, [1]))",
    "import json, re, datetime, decimal, uuid, logging, tempfile, mimetypes, locale, calendar",
    "mimetypes.guess_type('a.png'); logging.getLogger('x').warning; calendar.month(2020, 1)",
    "import xml.etree.ElementTree as ET, html, email, urllib.parse; ET.fromstring('<a/>')",
    "from sklearn.utils.validation import check_is_fitted; check_is_fitted(model)",
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    import traceback; traceback.format_exc()",
]

PROGRAM = """
import io, sys
from pathlib import Path
from nbrewind.state.effects import EffectTracker
import matplotlib; matplotlib.use("agg")
import numpy as np, pandas as pd, sklearn, sklearn.datasets, sklearn.metrics
import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.ensemble import RandomForestClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.decomposition import PCA
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
tracker = EffectTracker(Path.cwd())
space = globals()
for source in {sources!r}:
    code = compile(source, "<cell>", "exec")
    tracker.begin(True)
    try:
        exec(code, space)
        plt.close("all")  # as Jupyter's backend does
    finally:
        effects = tracker.end()
    for effect in effects.others:
        print(source, "->", effect)
"""


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[EffectTracker]:
    tracker = EffectTracker(tmp_path)
    yield tracker
    tracker.close()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules of the project, imported and dropped again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if "nbr_" in name:
            del sys.modules[name]


def run(tracker: EffectTracker, source: str, **names: Any) -> SessionEffects:
    code = compile(textwrap.dedent(source), "<cell>", "exec")
    tracker.begin(thorough=True)
    exec(code, {"__name__": "__main__", **names})
    return tracker.end()


def test_ordinary_cells_patch_nothing(tmp_path: Path) -> None:
    assert len(ORDINARY) >= 40
    program = PROGRAM.replace("{sources!r}", repr(ORDINARY))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_figures_that_stay_open_are_an_effect(tracker: EffectTracker) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    try:
        assert run(tracker, "plt.figure(); plt.plot([1])", plt=plt).others == (FIGURES,)
        assert run(tracker, "plt.gcf().axes", plt=plt).others == ()
        assert run(tracker, "plt.title('t')", plt=plt).others == (FIGURES,)
    finally:
        plt.close("all")


def test_imports_are_told_as_they_ended_without_made_up_modules(
    tracker: EffectTracker, library: Path
) -> None:
    (library / "nbr_first.py").write_text("import nbr_second")
    (library / "nbr_second.py").write_text("")
    found = run(
        tracker,
        """
        import sys, types, nbr_first
        sys.modules["nbr_alias"] = nbr_first
        sys.modules["nbr_made"] = types.ModuleType("nbr_made")
        """,
    )
    assert found.imports == ("nbr_second", "nbr_first")
    assert found.others == ()


def test_a_method_given_to_a_library_class_is_seen(tracker: EffectTracker) -> None:
    import pandas as pd

    try:
        found = run(tracker, "pd.DataFrame.foo = lambda self: 1", pd=pd)
    finally:
        del pd.DataFrame.foo  # type: ignore[attr-defined]
    assert found.others == ("patch:pandas.DataFrame.foo",)


def test_a_display_method_of_the_notebook_is_seen(tracker: EffectTracker) -> None:
    import pandas as pd

    try:
        found = run(tracker, "pd.Series._repr_png_ = lambda self: None", pd=pd)
    finally:
        del pd.Series._repr_png_  # type: ignore[attr-defined]
    assert found.others == ("patch:pandas.Series._repr_png_",)


def test_a_name_given_to_a_module_is_seen(tracker: EffectTracker) -> None:
    try:
        assert run(tracker, "import math; math.tau2 = 1").others == ("patch:math.tau2",)
        assert run(tracker, "import math; math.tau2").others == ()
    finally:
        del math.tau2  # type: ignore[attr-defined]


def test_a_removed_name_is_seen(tracker: EffectTracker) -> None:
    tau = math.tau
    try:
        assert run(tracker, "import math; del math.tau").others == ("patch:math.(removed)",)
    finally:
        math.tau = tau  # type: ignore[misc]


def test_a_registered_accessor_is_seen(tracker: EffectTracker) -> None:
    import pandas as pd

    source = """
    @pd.api.extensions.register_dataframe_accessor("nbr_geo")
    class Geo:
        def __init__(self, frame): pass
    """
    try:
        found = run(tracker, source, pd=pd)
    finally:
        del pd.DataFrame.nbr_geo  # type: ignore[attr-defined]
        pd.DataFrame._accessors.discard("nbr_geo")  # type: ignore[attr-defined]
    assert found.others == ("patch:pandas.DataFrame.nbr_geo",)


def test_a_patch_made_by_calling_a_library_is_seen_even_if_imported_in_the_same_cell(
    tracker: EffectTracker, library: Path
) -> None:
    """As `from tqdm import tqdm; tqdm.pandas()` does."""
    import pandas as pd

    (library / "nbr_tqdm.py").write_text(
        "def pandas():\n"
        "    import pandas\n"
        "    pandas.Series.progress_apply = lambda self, f: self.apply(f)\n"
    )
    try:
        found = run(tracker, "import nbr_tqdm; nbr_tqdm.pandas()")
    finally:
        del pd.Series.progress_apply  # type: ignore[attr-defined]
    assert found.imports == ("nbr_tqdm",)
    assert found.others == ("patch:pandas.Series.progress_apply",)


def test_a_patch_made_by_an_import_comes_back_with_the_import(
    tracker: EffectTracker, library: Path
) -> None:
    import pandas as pd

    (library / "nbr_patching.py").write_text("import pandas\npandas.Index.nbr_plot = 1\n")
    source = """
    math.nbr_before = 1
    import nbr_patching
    math.nbr_after = 2
    """
    try:
        found = run(tracker, source, math=math)
    finally:
        del pd.Index.nbr_plot  # type: ignore[attr-defined]
        del math.nbr_before, math.nbr_after  # type: ignore[attr-defined]
    assert found.others == ("patch:math.nbr_before", "patch:math.nbr_after")


def test_what_changes_in_a_local_module_is_no_patch(tracker: EffectTracker, library: Path) -> None:
    source = "class Thing: pass\ndef connect():\n    global connection\n    connection = 1\n"
    (library / "nbr_state.py").write_text(source)
    importlib.invalidate_caches()
    importlib.import_module("nbr_state")
    found = run(tracker, "import nbr_state; nbr_state.connect(); nbr_state.Thing.size = 3")
    assert found.others == ()


def test_what_a_class_of_a_library_sets_on_itself_is_no_patch(
    tracker: EffectTracker, library: Path
) -> None:
    folder = library / "site-packages"
    folder.mkdir()
    source = "class Lock:\n    @classmethod\n    def make(cls): cls.made = 1\n"
    (folder / "nbr_lock.py").write_text(source)
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        importlib.import_module("nbr_lock")
        found = run(tracker, "import nbr_lock; nbr_lock.Lock.make(); nbr_lock.Lock.other = 2")
    finally:
        sys.path.remove(str(folder))
    assert found.others == ("patch:nbr_lock.Lock.other",)


def test_a_part_that_a_module_gets_when_it_is_asked_for_is_no_patch(
    tracker: EffectTracker, library: Path
) -> None:
    folder = library / "site-packages"
    folder.mkdir()
    (folder / "nbr_strict.py").write_text(
        "def __getattr__(name): raise ImportError(f'who wants {name}?')\n"
    )
    (folder / "nbr_parts.py").write_text(
        "import nbr_strict\n__all__ = ['MISSING']\n"
        "def __getattr__(name): return globals().setdefault(name, object())\n"
    )
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        importlib.import_module("nbr_parts")
        found = run(tracker, "import nbr_parts; nbr_parts.MISSING; nbr_parts.mine = 1")
    finally:
        sys.path.remove(str(folder))
    assert found.others == ("patch:nbr_parts.mine",)


def test_a_quick_look_tells_imports_only(tracker: EffectTracker, library: Path) -> None:
    (library / "nbr_quick.py").write_text("")
    tracker.begin(thorough=False)
    try:
        importlib.import_module("nbr_quick")
        math.nbr_quick = 1  # type: ignore[attr-defined]
    finally:
        del math.nbr_quick  # type: ignore[attr-defined]
    assert tracker.end() == SessionEffects(("nbr_quick",), ())
