"""SciPy."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "SciPy",
    requires=("scipy",),
    prelude="import numpy as np, scipy, scipy.sparse as sp, scipy.stats, scipy.interpolate, scipy.spatial, scipy.optimize, scipy.signal",
    cases=(
        Case(
            "csr_matrix",
            "x = sp.csr_matrix(np.eye(3))",
            "print(x.toarray(), x.nnz)",
            "x.data[0] = 5",
        ),
        Case("csc_array", "x = sp.csc_array(np.eye(3))", "print(x.toarray())", "x.data[0] = 5"),
        Case("coo_array", "x = sp.coo_array(np.eye(3))", "print(x.toarray())", "x.data[0] = 5"),
        Case("lil_matrix", "x = sp.lil_matrix((2, 3))", "print(x.toarray())", "x[0, 1] = 5"),
        Case("dok_array", "x = sp.dok_array((2, 3))", "print(x.toarray())", "x[0, 1] = 5"),
        Case("dia_array", "x = sp.dia_array(np.eye(2))", "print(x.toarray())", "x.data[0, 0] = 5"),
        Case(
            "bsr_array",
            "x = sp.bsr_array(np.eye(4), blocksize=(2, 2))",
            "print(x.toarray())",
            "x.data[0, 0, 0] = 5",
        ),
        Case(
            "LinearOperator",
            "x = sp.linalg.aslinearoperator(np.eye(2))",
            "print(x.matvec(np.ones(2)))",
            "x.A[0, 0] = 5",
        ),
        Case(
            "frozen distribution",
            "x = scipy.stats.norm(loc=1, scale=2)",
            "print(x.mean(), x.std())",
            "x.kwds['scale'] = 5",
        ),
        Case(
            "gaussian_kde",
            "x = scipy.stats.gaussian_kde([1.0, 2, 4])",
            "print(x(1.0), x.factor)",
            "x.set_bandwidth(2)",
        ),
        Case(
            "multivariate_normal, frozen",
            "x = scipy.stats.multivariate_normal([0, 1])",
            "print(x.mean, x.pdf([0, 1]))",
            "x.mean[0] = 5",
        ),
        Case(
            "CubicSpline",
            "x = scipy.interpolate.CubicSpline([0, 1, 2], [0, 1, 4])",
            "print(x(0.5))",
            "x.c[0, 0] = 5",
        ),
        Case(
            "interp1d",
            "x = scipy.interpolate.interp1d([0, 1], [0, 2])",
            "print(x(0.5))",
            "x.y[1] = 8",
        ),
        Case(
            "RegularGridInterpolator",
            "x = scipy.interpolate.RegularGridInterpolator(([0, 1], [0, 1]), np.eye(2))",
            "print(x([[0.5, 0.2]]))",
            "x.values[0, 0] = 8",
        ),
        Case(
            "BSpline",
            "x = scipy.interpolate.BSpline(np.arange(6), [1.0, 2, 3], 2)",
            "print(x(2.5))",
            "x.c[1] = 8",
        ),
        Case("cKDTree", "x = scipy.spatial.cKDTree([[0.0, 1], [2, 3]])", "print(x.query([0, 0]))"),
        Case(
            "KDTree", "x = scipy.spatial.KDTree([[0.0, 1], [2, 3]])", "print(x.query([0, 0]), x.n)"
        ),
        Case(
            "Delaunay",
            "x = scipy.spatial.Delaunay([[0.0, 0], [0, 1], [1, 0], [1, 1]])",
            "print(x.simplices.tolist())",
            "x.simplices[0, 0] = 0; x.simplices[1, 0] = 0",
        ),
        Case(
            "ConvexHull",
            "x = scipy.spatial.ConvexHull([[0.0, 0], [0, 1], [1, 0], [1, 1]])",
            "print(x.area, x.vertices.tolist())",
            "x.vertices[0] = 7",
        ),
        Case(
            "Rotation",
            "x = scipy.spatial.transform.Rotation.from_euler('z', 90, degrees=True)",
            "print(x.as_matrix().round(3))",
            recomputed="its array comes back laid out otherwise",
        ),
        Case(
            "OptimizeResult",
            "x = scipy.optimize.minimize(lambda v: (v**2).sum(), np.ones(2))",
            "print(x.success, x.x.round(3))",
            "x['fun'] = 9; x.x[0] = 4",
        ),
        Case(
            "TransferFunction",
            "x = scipy.signal.TransferFunction([1], [1, 2])",
            "print(x.num, x.den)",
            "x.num = [3.0]",
        ),
        Case("result of a test", "x = scipy.stats.ttest_ind([1, 2, 3], [2, 3, 5])", "print(x)"),
        Case(
            "quasi-Monte-Carlo engine",
            "x = scipy.stats.qmc.Sobol(2, scramble=False, rng=1)",
            "print(x.num_generated)",
            "x.random(2)",
        ),
    ),
)
