"""The number that torch gives to the next hook.

A hook is registered under its number in the dictionary of its module. In another process the
count would start again, and a new hook take the place of a restored one. The count goes on
like a random number generator: who registers a hook reads it and moves it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

from nbrewind.state.rng import Generator


class HookNumbers(Generator):
    """The count behind the handles that `register_hook` and its like return."""

    name = "torch.hooks"
    library = "torch"
    module = "torch.utils.hooks"

    def peek(self) -> Hashable:
        """The next number."""
        number: int = self._handles().next_id
        return number

    def put(self, state: Any) -> None:
        """Go on from a number."""
        self._handles().next_id = state

    @staticmethod
    def _handles() -> Any:
        return sys.modules["torch.utils.hooks"].RemovableHandle
