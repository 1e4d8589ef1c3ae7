"""The `nbrewind` command.

Modules here are imported on every start, so they import nothing heavy; each
command imports what it needs when it is called.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit."""
    from nbrewind.cli.app import run

    run()
