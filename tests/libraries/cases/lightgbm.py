"""LightGBM."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "LightGBM",
    requires=("lightgbm",),
    prelude="import numpy as np, lightgbm as lgb\nR = np.random.RandomState(0); X = R.rand(40, 3); y = (X[:, 0] > 0.5).astype(int)\nP = {'verbose': -1, 'num_threads': 1, 'min_data_in_leaf': 2, 'seed': 1}",
    cases=(
        Case(
            "Booster",
            "x = lgb.train(P, lgb.Dataset(X, y), 3)",
            "print(x.predict(X[:4]).round(5), x.best_iteration)",
            "x.best_iteration = 1",
        ),
        Case(
            "LGBMClassifier",
            "x = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(X, y)",
            "print(x.predict_proba(X[:3]).round(5), x.num_leaves)",
            "x.set_params(num_leaves=5)",
        ),
        Case(
            "LGBMRegressor",
            "x = lgb.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1).fit(X, y)",
            "print(x.predict(X[:3]).round(5))",
            "x.fit(X[:30], 1 - y[:30])",
        ),
        Case(
            "Dataset",
            "x = lgb.Dataset(X, y, params=P)",
            "print(x.get_label()[:4])",
            "x.set_label(1 - y)",
        ),
        Case(
            "Dataset, constructed",
            "x = lgb.Dataset(X, y, params=P, free_raw_data=False).construct()",
            "print(x.num_data(), x.get_label()[:4])",
            "x.set_label(1 - y)",
            recomputed="data in the library's own memory",
        ),
    ),
)
