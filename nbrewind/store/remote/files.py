"""Named immutable files: all that a store needs of the place it is kept in.

Object storage offers these operations and few others. Names are relative to the store and
written with `/`: `packs/ab/ab12….pack`. What a store writes never changes under its name, so
every operation can be repeated when its answer was lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator


class Unreachable(OSError):
    """The place did not answer, or said that it cannot at present: worth trying later."""


class Files(ABC):
    """The files of one store.

    Methods raise `OSError`: `FileNotFoundError` for a name that is not there,
    `PermissionError` where access is refused, `Unreachable` if trying again later may help.
    """

    location: str
    """Where they are, for people; without credentials."""

    @abstractmethod
    def names(self, folder: str) -> Iterator[tuple[str, int]]:
        """Names of all files below a folder, at any depth, with their sizes in bytes."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A whole file."""

    @abstractmethod
    def read_range(self, name: str, start: int, length: int) -> memoryview:
        """Bytes of a file; fewer only where it ends."""

    @abstractmethod
    def read_end(self, name: str, length: int) -> tuple[bytes, int]:
        """The last bytes of a file, and its size."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Make a file, whole and durable; one of the same name is replaced in one step."""

    @abstractmethod
    def claim(self, name: str, content: bytes) -> bool:
        """Make a file, whole and durable, unless the name is taken.

        Returns:
            Whether the file has this content now. A content that nobody else writes is thereby
            a claim on the name, even if the answer to an earlier attempt was lost.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file; a no-op if it is not there."""

    def close(self) -> None:
        """Release what is held."""
        return
