"""Matplotlib."""

from __future__ import annotations

from tests.libraries.case import Case, Library
from tests.libraries.plots import PIXELS, plot

LIBRARY = Library(
    "Matplotlib",
    requires=("matplotlib",),
    prelude="import numpy as np, matplotlib.pyplot as plt",
    reset="import matplotlib.pyplot as plt; plt.close('all')",
    cases=(
        plot("Figure", "x, ax = plt.subplots(); ax.plot([1, 3, 2])", PIXELS, "ax.set_title('t')"),
        plot(
            "Figure, drawn into again",
            "x = plt.figure(); plt.plot([1, 3, 2])",
            PIXELS,
            "x.gca().hist([1, 1, 2]); x.tight_layout()",
        ),
        plot(
            "Figure with many kinds of plots",
            "x, axes = plt.subplots(2, 3); axes[0, 0].scatter([1, 2], [3, 4], c=[5, 6]); axes[0, 1].boxplot([1, 2, 5]); axes[0, 2].pie([1, 2]); axes[1, 0].contourf(np.eye(3)); axes[1, 1].errorbar([1], [2], [3]); axes[1, 2].violinplot([1, 2, 5])",
            PIXELS,
            "axes[1, 1].annotate('a', (1, 2))",
        ),
        plot(
            "Figure with dates",
            "import datetime; x, ax = plt.subplots(); ax.plot([datetime.date(2020, 1, d) for d in (1, 2, 5)], [1, 2, 3]); x.autofmt_xdate()",
            PIXELS,
            "ax.set_yscale('log')",
        ),
        plot(
            "Figure with categories",
            "x, ax = plt.subplots(); ax.bar(['a', 'b'], [1, 2])",
            PIXELS,
            "ax.bar(['c'], [3])",
        ),
        plot(
            "Figure with twin axes",
            "x, ax = plt.subplots(); ax.plot([1, 2]); other = ax.twinx(); other.plot([5, 3])",
            PIXELS,
            "ax.set_xlim(0, 5)",
        ),
        plot(
            "Figure with constrained layout",
            "x, ax = plt.subplots(2, layout='constrained'); ax[0].set_title('t')",
            PIXELS,
            "ax[1].set_xlabel('u')",
        ),
        plot(
            "Figure with a callback of the notebook",
            "seen = []\ndef f(a): seen.append(a.get_xlim())\nx, ax = plt.subplots(); ax.callbacks.connect('xlim_changed', f)",
            "print(ax.get_xlim(), seen)",
            "ax.set_xlim(0, 5)",
        ),
        Case(
            "Figure that pyplot has open",
            "x = plt.figure(); plt.plot([1, 3, 2])",
            "print(len(x.axes), plt.gcf() is x)",
            "x.suptitle('t'); x.add_subplot(212)",
            recomputed="code changes it without naming it",
        ),
        plot(
            "Figure with bars",
            "x, ax = plt.subplots(); ax.bar([1, 2], [3, 4])",
            PIXELS,
            "ax.set_xlim(0, 9)",
        ),
        plot(
            "Axes",
            "fig, x = plt.subplots(); x.plot([1, 2])",
            "print(x.lines[0].get_ydata(), x.get_xlabel(), x.figure is fig)",
            "x.set_xlabel('t')",
        ),
        plot(
            "array of Axes",
            "fig, x = plt.subplots(2, 2, sharex=True)",
            "print([a.get_title() for a in x.flat], x[0, 0].get_shared_x_axes().joined(x[0, 0], x[1, 1]))",
            "x[0, 1].set_title('t')",
        ),
        plot(
            "Axes, three-dimensional",
            "fig = plt.figure(); x = fig.add_subplot(projection='3d'); x.plot_surface(*np.mgrid[:3, :3], np.eye(3))",
            "print(x.elev, len(x.collections))",
            "x.view_init(10, 20)",
        ),
        plot(
            "Axes, polar",
            "fig = plt.figure(); x = fig.add_subplot(polar=True); x.plot([0, 1], [1, 2])",
            "print(x.get_theta_direction(), len(x.lines))",
            "x.set_theta_direction(-1)",
        ),
        plot(
            "Axes with an image and a colour bar",
            "fig, x = plt.subplots(); bar = fig.colorbar(x.imshow(np.eye(3)))",
            "print(x.images[0].get_clim(), bar.vmax)",
            "x.images[0].set_clim(0, 5)",
        ),
        plot(
            "Line2D",
            "fig, ax = plt.subplots(); x, = ax.plot([1, 2], label='l')",
            "print(x.get_ydata(), x.axes is ax)",
            "x.set_ydata([5, 6])",
        ),
        plot(
            "Legend",
            "fig, ax = plt.subplots(); ax.plot([1], label='l'); x = ax.legend()",
            "print(x.get_texts()[0].get_text())",
            "x.get_texts()[0].set_text('m')",
        ),
        plot(
            "Text",
            "fig, ax = plt.subplots(); x = ax.text(0, 0, 'a')",
            "print(x.get_text())",
            "x.set_text('b')",
        ),
        plot(
            "bar container",
            "fig, ax = plt.subplots(); x = ax.bar([1, 2], [3, 4])",
            "print([p.get_height() for p in x])",
            "x[0].set_height(9)",
        ),
        Case(
            "patch without a figure",
            "from matplotlib.patches import Circle; x = Circle((0, 0), 1)",
            "print(x.radius)",
            "x.radius = 4",
        ),
        Case(
            "Colormap",
            "x = plt.get_cmap('viridis', 4)",
            "print(x(1), x.N, x(9))",
            "x.set_over('red')",
        ),
        Case("Normalize", "x = plt.Normalize(0, 2)", "print(x(1.0), x.vmax)", "x.vmax = 4"),
        Case(
            "ScalarMappable",
            "x = plt.cm.ScalarMappable(cmap='gray')",
            "print(x.get_clim())",
            "x.set_clim(0, 1)",
        ),
        Case(
            "cycler",
            "x = plt.cycler(color='rgb')",
            "print(x, len(x))",
            "x.change_key('color', 'c')",
        ),
        plot(
            "GridSpec",
            "fig = plt.figure(); x = fig.add_gridspec(2, 2)",
            "print(x.get_geometry(), x.left)",
            "x.update(left=0.3)",
        ),
        Case(
            "transform",
            "import matplotlib.transforms as t; x = t.Affine2D().rotate(1)",
            "print(x.get_matrix().round(3))",
            "x.scale(2)",
        ),
        Case(
            "Path",
            "import matplotlib.path as p; x = p.Path([[0, 0], [1, 1]])",
            "print(x.vertices.tolist())",
            "x.vertices[0, 0] = 5",
        ),
        Case(
            "animation",
            "from matplotlib.animation import FuncAnimation\nfig, ax = plt.subplots(); line, = ax.plot([0]); x = FuncAnimation(fig, lambda i: line, 3); x._draw_was_started = True",
            "print(x._interval)",
            "x._interval = 5",
            recomputed="a timer drives it",
        ),
    ),
)
