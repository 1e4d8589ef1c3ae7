"""scikit-learn."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_DATA = """\
import numpy as np
R = np.random.RandomState(0); X = R.rand(30, 3); y = (X[:, 0] > 0.5).astype(int); t = X @ [1.0, 2, 3]"""
_AGAIN = "x.fit(X[:20], y[:20])"


def _fitted(name: str, make: str, read: str, modify: str = "", **known: str) -> Case:
    module, _, call = make.partition(":")
    create = f"from sklearn.{module} import {call.partition('(')[0]}\nx = {call}"
    return Case(name, create, read, modify, **known)


LIBRARY = Library(
    "scikit-learn",
    requires=("sklearn",),
    prelude=_DATA,
    cases=(
        _fitted(
            "LinearRegression",
            "linear_model:LinearRegression().fit(X, t)",
            "print(x.coef_.round(6))",
            "x.coef_[0] = 9",
        ),
        _fitted(
            "LogisticRegression",
            "linear_model:LogisticRegression().fit(X, y)",
            "print(x.coef_.round(6))",
            _AGAIN,
        ),
        _fitted(
            "SGDClassifier",
            "linear_model:SGDClassifier(random_state=0).fit(X, y)",
            "print(x.coef_.round(6))",
            "x.partial_fit(X, y)",
        ),
        _fitted(
            "DecisionTreeClassifier",
            "tree:DecisionTreeClassifier(random_state=0).fit(X, y)",
            "print(x.predict(X), x.tree_.node_count, x.max_depth)",
            "x.set_params(max_depth=3)",
        ),
        _fitted(
            "DecisionTreeRegressor, fitted again",
            "tree:DecisionTreeRegressor(random_state=0).fit(X, t)",
            "print(x.predict(X).round(6))",
            "x.fit(X[:10], t[:10])",
        ),
        _fitted(
            "RandomForestClassifier",
            "ensemble:RandomForestClassifier(5, random_state=0).fit(X, y)",
            "print(x.predict_proba(X[:9]))",
            "x.fit(X[:20], y[:20])",
        ),
        _fitted(
            "GradientBoostingRegressor",
            "ensemble:GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, t)",
            "print(x.predict(X[:9]).round(6))",
            "x.fit(X[:10], t[:10])",
        ),
        _fitted(
            "HistGradientBoostingClassifier",
            "ensemble:HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3).fit(X, y)",
            "print(x.predict_proba(X[:9]).round(6))",
            _AGAIN,
        ),
        _fitted(
            "IsolationForest",
            "ensemble:IsolationForest(n_estimators=5, random_state=0).fit(X)",
            "print(x.score_samples(X[:5]).round(6))",
            "x.fit(X[:20])",
        ),
        _fitted(
            "SVC",
            "svm:SVC(probability=False).fit(X, y)",
            "print(x.decision_function(X[:5]).round(6))",
            _AGAIN,
        ),
        _fitted(
            "KNeighborsClassifier",
            "neighbors:KNeighborsClassifier(algorithm='kd_tree').fit(X, y)",
            "print(x.kneighbors(X[:2])[1])",
            _AGAIN,
            fills="it counts its queries",
        ),
        _fitted(
            "KMeans",
            "cluster:KMeans(3, n_init=2, random_state=0).fit(X)",
            "print(x.cluster_centers_.round(6))",
            "x.fit(X[:20])",
        ),
        _fitted("DBSCAN", "cluster:DBSCAN(0.3).fit(X)", "print(x.labels_)", "x.labels_[0] = 9"),
        _fitted(
            "PCA",
            "decomposition:PCA(2).fit(X)",
            "print(x.explained_variance_.round(6))",
            "x.fit(X[:20])",
        ),
        _fitted(
            "GaussianMixture",
            "mixture:GaussianMixture(2, random_state=0).fit(X)",
            "print(x.means_.round(6))",
            "x.means_[0] = 0",
        ),
        _fitted(
            "GaussianProcessRegressor",
            "gaussian_process:GaussianProcessRegressor().fit(X, t)",
            "print(x.predict(X[:9]).round(2), x.X_train_.shape)",
            "x.fit(X[:6], t[:6])",
        ),
        _fitted(
            "MLPClassifier",
            "neural_network:MLPClassifier((4,), random_state=0, max_iter=5).fit(X, y)",
            "print(x.coefs_[0].round(6), x.t_)",
            "x.partial_fit(X, y)",
        ),
        _fitted(
            "GaussianNB",
            "naive_bayes:GaussianNB().fit(X, y)",
            "print(x.theta_.round(6))",
            "x.partial_fit(X[:5], y[:5])",
        ),
        _fitted(
            "StandardScaler",
            "preprocessing:StandardScaler().fit(X)",
            "print(x.mean_.round(6))",
            "x.partial_fit(X[:5])",
        ),
        _fitted(
            "OneHotEncoder",
            "preprocessing:OneHotEncoder().fit([['a'], ['b']])",
            "print(x.categories_)",
            "x.fit([['c']])",
        ),
        _fitted(
            "LabelEncoder",
            "preprocessing:LabelEncoder().fit(['b', 'a'])",
            "print(x.classes_)",
            "x.fit(['c'])",
        ),
        _fitted(
            "FunctionTransformer",
            "preprocessing:FunctionTransformer(np.log1p)",
            "print(x.transform(X[:1]).round(6), x.inverse_func)",
            "x.inverse_func = np.expm1",
        ),
        Case(
            "FunctionTransformer with a function of the notebook",
            "from sklearn.preprocessing import FunctionTransformer\ndef double(v): return v * factor\nfactor = 2; x = FunctionTransformer(double)",
            "print(x.transform(X[:1]).round(6), x.validate)",
            "x.validate = True",
        ),
        _fitted(
            "CountVectorizer",
            "feature_extraction.text:CountVectorizer().fit(['a bc de', 'bc fg'])",
            "print(sorted(x.vocabulary_.items()))",
            "x.fit(['zz yy'])",
            varies="it notes an address",
        ),
        _fitted(
            "TfidfVectorizer",
            "feature_extraction.text:TfidfVectorizer().fit(['a bc de', 'bc fg'])",
            "print(x.idf_.round(4))",
            "x.fit(['zz yy'])",
            varies="it notes an address",
        ),
        Case(
            "Pipeline",
            "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import Ridge\nx = make_pipeline(StandardScaler(), Ridge()).fit(X, t)",
            "print(x.predict(X[:4]).round(6))",
            "x.set_params(ridge__alpha=50).fit(X, t)",
        ),
        Case(
            "ColumnTransformer",
            "from sklearn.compose import ColumnTransformer\nfrom sklearn.preprocessing import StandardScaler\nx = ColumnTransformer([('s', StandardScaler(), [0])], remainder='passthrough').fit(X)",
            "print(x.transform(X[:2]).round(6))",
            "x.fit(X[:5])",
        ),
        Case(
            "GridSearchCV",
            "from sklearn.model_selection import GridSearchCV\nfrom sklearn.tree import DecisionTreeClassifier\nx = GridSearchCV(DecisionTreeClassifier(random_state=0), {'max_depth': [1, 2]}, cv=2).fit(X, y)",
            "print(x.best_params_, x.best_estimator_.predict(X[:4]), x.cv)",
            "x.cv = 3",
            varies="it holds how long fitting took",
        ),
        _fitted(
            "KFold",
            "model_selection:KFold(3, shuffle=True, random_state=1)",
            "print([len(b) for a, b in x.split(X)], x.random_state)",
            "x.random_state = 5",
        ),
        _fitted(
            "KDTree",
            "neighbors:KDTree(X)",
            "print(x.query(X[:2], 2)[1])",
            fills="it counts its queries",
        ),
        _fitted(
            "Bunch",
            "datasets:load_iris()",
            "print(x.data.shape, x.target_names)",
            "x.target_names[0] = 'new'",
        ),
    ),
)
