"""The `nbrewind` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit."""
    from nbrewind.cli.app import run

    run()
