"""OpenCV."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "OpenCV",
    requires=("cv2",),
    prelude="import numpy as np, cv2",
    cases=(
        Case(
            "image",
            "x = cv2.GaussianBlur(np.eye(5, dtype=np.float32), (3, 3), 1)",
            "print(x.sum().round(3))",
            "x[0] = 9",
        ),
        Case(
            "KeyPoint",
            "x = cv2.KeyPoint(1, 2, 3)",
            "print(x.pt, x.size)",
            "x.size = 9",
            recomputed="it does not pickle",
        ),
        Case(
            "detector",
            "x = cv2.ORB_create(5)",
            "print(x.getMaxFeatures())",
            "x.setMaxFeatures(9)",
            recomputed="it does not pickle",
        ),
        Case(
            "VideoCapture",
            "x = cv2.VideoCapture()",
            "print(x.isOpened())",
            recomputed="it does not pickle",
        ),
        Case("UMat", "x = cv2.UMat(np.eye(2))", "print(x.get())", recomputed="it does not pickle"),
        Case(
            "CascadeClassifier",
            "x = cv2.TickMeter()",
            "print(x.getCounter())",
            "x.start(); x.stop()",
            recomputed="it does not pickle",
        ),
    ),
)
