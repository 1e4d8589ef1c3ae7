"""Start a NBRewind kernel: `python -m nbrewind_launcher --mode audit -f FILE`.

A module of its own, outside every package, so that the current directory can
be taken off `sys.path` before anything is imported: a `random.py` beside the
notebook must not break the kernel. IPython puts the directory back for the
user's code.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.path and (sys.path[0] == "" or Path(sys.path[0]) == Path.cwd()):
        del sys.path[0]

    mode = "audit"
    if "--mode" in sys.argv[1:-1]:
        at = sys.argv.index("--mode")
        mode = sys.argv[at + 1]
        del sys.argv[at : at + 2]

    from importlib.util import find_spec

    from nbrewind_kernels.launch import main

    # Programs show `sys.argv[0]` in usage texts: the notebook's code sees what it always saw.
    plain = find_spec("ipykernel_launcher")
    if plain is not None and plain.origin is not None:
        sys.argv[0] = plain.origin

    main(mode)
