"""`python -m nbrewind` is the `nbrewind` command."""

from __future__ import annotations

from nbrewind.cli import main

if __name__ == "__main__":
    main()
