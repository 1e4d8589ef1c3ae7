"""scikit-image."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "scikit-image",
    requires=("skimage",),
    prelude="import numpy as np, skimage.measure, skimage.transform, skimage.io, skimage.feature, skimage.graph\nlabels = np.zeros((5, 5), int); labels[1:3, 1:3] = 1; labels[4, 4] = 2",
    cases=(
        Case(
            "AffineTransform",
            "x = skimage.transform.AffineTransform(scale=2, rotation=0.1)",
            "print(x([[1, 2]]).round(4))",
            "x.params[0, 0] = 9",
        ),
        Case(
            "ProjectiveTransform",
            "x = skimage.transform.ProjectiveTransform(np.eye(3))",
            "print(x.params)",
            "x.params[0, 0] = 9",
        ),
        Case(
            "PiecewiseAffineTransform",
            "x = skimage.transform.PiecewiseAffineTransform(); p = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]); x.estimate(p, p * 2)",
            "print(x([[0.5, 0.4]]).round(4))",
            "x.affines[0].params[0, 0] = 9; x.affines[1].params[0, 0] = 9",
            fills="it fills caches",
        ),
        Case(
            "RegionProperties",
            "x = skimage.measure.regionprops(labels)[0]",
            "print(x.area, x.bbox, x.label)",
            "x.label = 2",
            fills="properties are worked out when asked for",
        ),
        Case(
            "list of RegionProperties",
            "x = skimage.measure.regionprops(labels)",
            "print([r.centroid for r in x])",
            "x.pop()",
            fills="properties are worked out when asked for",
        ),
        Case(
            "EllipseModel",
            "x = skimage.measure.LineModelND.from_estimate(np.array([[0.0, 0], [1, 1], [2, 2]]))",
            "print(np.round(x.origin, 4))",
            "x.origin = np.array([5.0, 5])",
        ),
        Case(
            "ORB",
            "x = skimage.feature.ORB(n_keypoints=5)",
            "print(x.n_keypoints)",
            "x.n_keypoints = 9",
        ),
        Case(
            "MCP",
            "x = skimage.graph.MCP(np.ones((3, 3)))",
            "print(x.find_costs([(0, 0)])[0].round(3))",
            recomputed="state in compiled code",
        ),
        Case(
            "ImageCollection",
            "x = skimage.io.ImageCollection('i.png')",
            "print(len(x), x[0].sum())",
            "x.concatenate_note = 1; x[0][0, 0] = 9",
            fills="images are read when asked for",
            prepare="skimage.io.imsave('i.png', np.zeros((4, 4), np.uint8), check_contrast=False)",
        ),
    ),
)
