"""statsmodels."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "statsmodels",
    requires=("statsmodels",),
    prelude="""\
import numpy as np, pandas as pd, statsmodels.api as sm, statsmodels.formula.api as smf
R = np.random.RandomState(0); d = pd.DataFrame({'a': R.rand(40), 'b': R.rand(40)}); d['t'] = d.a * 2 + R.rand(40)""",
    cases=(
        Case(
            "OLS",
            "x = sm.OLS(d.t, sm.add_constant(d[['a', 'b']]))",
            "print(x.exog[0].round(4), x.df_model)",
            "x.df_model = 9",
            fills="results are worked out when asked for",
        ),
        Case(
            "results of OLS",
            "x = sm.OLS(d.t, d[['a', 'b']]).fit()",
            "print(x.params.round(6), x.rsquared, x.use_t)",
            "x.use_t = False",
            fills="results are worked out when asked for",
        ),
        Case(
            "results of OLS, tables and tests",
            "x = sm.OLS(d.t, d[['a', 'b']]).fit()",
            "print(x.summary().tables[1], x.pvalues.round(5), x.use_t)",
            "x.use_t = False",
            fills="results are worked out when asked for",
        ),
        Case(
            "results of a formula",
            "x = smf.ols('t ~ a + b', d).fit()",
            "print(x.predict(d[:3]).round(5), x.use_t)",
            "x.use_t = False",
        ),
        Case(
            "results of a formula with a function of the notebook",
            "def half(v): return v / 2\nx = smf.ols('t ~ half(a)', d).fit()",
            "print(x.predict(d[:3]).round(5), x.use_t)",
            "x.use_t = False",
            recomputed="its formula is evaluated as it loads",
        ),
        Case(
            "results of GLM",
            "x = sm.GLM((d.t > 1).astype(int), d[['a', 'b']], sm.families.Binomial()).fit()",
            "print(x.params.round(5), x.use_t)",
            "x.use_t = True",
            fills="results are worked out when asked for",
        ),
        Case(
            "results of ARIMA",
            "from statsmodels.tsa.arima.model import ARIMA\nx = ARIMA(d.t, order=(1, 0, 0)).fit()",
            "print(x.forecast(2).round(4))",
            "x.model.endog[0] = 4\nx = x.append([1.0])",
            fills="results are worked out when asked for",
            varies="tables in it are ordered by hash",
        ),
        Case(
            "results of exponential smoothing",
            "from statsmodels.tsa.holtwinters import SimpleExpSmoothing\nx = SimpleExpSmoothing(d.t, initialization_method='estimated').fit()",
            "print(x.forecast(2).round(4))",
            "x.params['smoothing_level'] = 0.1",
            fills="results are worked out when asked for",
        ),
        Case(
            "seasonal decomposition",
            "from statsmodels.tsa.seasonal import seasonal_decompose\nx = seasonal_decompose(d.t, period=4)",
            "print(x.trend.head(4).round(4))",
            "x.trend.iloc[2] = 5",
        ),
        Case(
            "KDE",
            "x = sm.nonparametric.KDEUnivariate(d.t); x.fit()",
            "print(x.density[:3].round(5))",
            "x.fit(bw=2)",
        ),
        Case(
            "Summary",
            "x = sm.OLS(d.t, d[['a']]).fit().summary()",
            "print(x.tables[1])",
            "x.tables.pop(0)",
            fills="results are worked out when asked for",
            varies="it says when it was made",
        ),
        Case(
            "ECDF",
            "from statsmodels.distributions.empirical_distribution import ECDF\nx = ECDF(d.t)",
            "print(x(1.0))",
            "x.y[:] = 1",
        ),
    ),
)
