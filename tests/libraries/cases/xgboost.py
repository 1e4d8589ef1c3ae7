"""XGBoost."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "XGBoost",
    requires=("xgboost",),
    prelude="import numpy as np, xgboost as xgb\nR = np.random.RandomState(0); X = R.rand(40, 3); y = (X[:, 0] > 0.5).astype(int)",
    cases=(
        Case(
            "Booster",
            "x = xgb.train({'max_depth': 2, 'nthread': 1}, xgb.DMatrix(X, y), 3)",
            "print(x.predict(xgb.DMatrix(X[:4])).round(5), x.num_boosted_rounds())",
            "x.update(xgb.DMatrix(X, y), 4)",
        ),
        Case(
            "Booster with attributes",
            "x = xgb.train({'nthread': 1}, xgb.DMatrix(X, y), 1)",
            "print(x.attr('k'))",
            "x.set_attr(k='v')",
        ),
        Case(
            "XGBClassifier",
            "x = xgb.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, y)",
            "print(x.predict_proba(X[:3]).round(5), x.max_depth)",
            "x.set_params(max_depth=7)",
        ),
        Case(
            "XGBRegressor",
            "x = xgb.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, y)",
            "print(x.predict(X[:3]).round(5))",
            "x.fit(X[:20], y[:20])",
        ),
        Case(
            "DMatrix",
            "x = xgb.DMatrix(X, y)",
            "print(x.num_row(), x.get_label()[:4])",
            "x.set_label(1 - y)",
            recomputed="data in the library's own memory",
        ),
    ),
)
