"""seaborn."""

from __future__ import annotations

from tests.libraries.case import Case, Library
from tests.libraries.plots import plot

LIBRARY = Library(
    "seaborn",
    requires=("seaborn",),
    prelude="import pandas as pd, seaborn as sns, matplotlib.pyplot as plt\nd = pd.DataFrame({'a': [1, 2, 3, 4], 'b': [2, 1, 4, 3], 'c': list('uvuv')})",
    reset="import matplotlib.pyplot as plt; plt.close('all')",
    cases=(
        plot(
            "Axes of a plot",
            "x = sns.scatterplot(d, x='a', y='b', hue='c')",
            "print(x.get_title(), len(x.collections))",
            "x.set_title('t')",
        ),
        plot(
            "FacetGrid",
            "x = sns.relplot(d, x='a', y='b', col='c')",
            "print([a.get_title() for a in x.axes.flat])",
            "x.set_titles('{col_name}')",
        ),
        plot(
            "PairGrid",
            "x = sns.pairplot(d[['a', 'b']])",
            "print(x.axes.shape, x.axes[0, 0].get_ylabel())",
            "x.axes[0, 0].set_ylabel('t')",
        ),
        plot(
            "JointGrid",
            "x = sns.jointplot(d, x='a', y='b')",
            "print(x.ax_joint.get_xlabel())",
            "x.ax_joint.set_xlabel('t')",
        ),
        plot(
            "ClusterGrid",
            "x = sns.clustermap(d[['a', 'b']])",
            "print(x.data2d.shape, x.ax_heatmap.get_title())",
            "x.ax_heatmap.set_title('t')",
        ),
        plot(
            "heat map", "x = sns.heatmap(d[['a', 'b']])", "print(x.get_title())", "x.set_title('t')"
        ),
        plot(
            "Plot",
            "import seaborn.objects as so\nx = so.Plot(d, x='a', y='b').add(so.Dot())",
            "print(len(x._layers), type(x).__name__)",
            "x._layers.append(x._layers[0])",
        ),
        Case("palette", "x = sns.color_palette('deep')", "print(len(x), x[0])", "x.pop()"),
    ),
)
