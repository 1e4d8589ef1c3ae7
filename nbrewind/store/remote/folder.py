"""The files of a store in a directory, durable when written."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import uuid
from collections.abc import Iterator

from nbrewind.store import durable
from nbrewind.store.publish import create_exclusively, links_refused
from nbrewind.store.remote.files import Files
from nbrewind.store.session import make_session


class FolderFiles(Files):
    """Files below a directory that is a store already.

    Args:
        root: The directory; what is being written lies in its `tmp` until it is whole.
    """

    def __init__(self, root: str) -> None:
        self.location = os.path.abspath(root)
        self._session: tuple[int, str] | None = None
        self._lock = threading.Lock()

    def names(self, folder: str) -> Iterator[tuple[str, int]]:
        """See `Files.names`."""
        for place, folders, names in os.walk(self._path(folder)):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(place, name)
                with contextlib.suppress(FileNotFoundError):
                    yield os.path.relpath(path, self.location), os.stat(path).st_size

    def read(self, name: str) -> bytes:
        """See `Files.read`."""
        with open(self._path(name), "rb", buffering=0) as file:
            return file.readall()

    def read_range(self, name: str, start: int, length: int) -> memoryview:
        """See `Files.read_range`."""
        with open(self._path(name), "rb") as file:
            file.seek(start)
            return memoryview(file.read(length))

    def read_end(self, name: str, length: int) -> tuple[bytes, int]:
        """See `Files.read_end`."""
        with open(self._path(name), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - length))
            return file.read(), size

    def write(self, name: str, content: bytes) -> None:
        """See `Files.write`."""
        path = self._path(name)
        temporary = self._written(content)
        try:
            self._make_folders(path)
            os.rename(temporary, path)
        except OSError:
            durable.discard(temporary)
            raise
        durable.sync_directory(os.path.dirname(path))

    def claim(self, name: str, content: bytes) -> bool:
        """See `Files.claim`."""
        path = self._path(name)
        temporary = self._written(content)
        try:
            self._make_folders(path)
            try:
                os.link(temporary, path)
            except FileExistsError:
                if self.read(name) != content:
                    return False
            except OSError as exc:
                if not links_refused(exc):
                    raise
                if not create_exclusively(path, content) and self.read(name) != content:
                    return False
        finally:
            durable.discard(temporary)
        durable.sync_directory(os.path.dirname(path))
        return True

    def remove(self, name: str) -> None:
        """See `Files.remove`."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def close(self) -> None:
        """See `Files.close`."""
        if self._session is not None and self._session[0] == os.getpid():
            shutil.rmtree(self._session[1], ignore_errors=True)
        self._session = None

    def _path(self, name: str) -> str:
        return os.path.join(self.location, name)

    def _written(self, content: bytes) -> str:
        temporary = os.path.join(self._session_directory(), uuid.uuid4().hex)
        durable.write_small(temporary, content)
        return temporary

    def _session_directory(self) -> str:
        with self._lock:
            if (
                self._session is None
                or self._session[0] != os.getpid()
                or not os.path.isdir(self._session[1])
            ):
                self._session = (os.getpid(), make_session(os.path.join(self.location, "tmp")))
            return self._session[1]

    def _make_folders(self, path: str) -> None:
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            self._make_folders(folder)
            durable.make_directory(folder)
