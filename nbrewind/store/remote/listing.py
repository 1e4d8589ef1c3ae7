"""The refs of a store of which there is nothing but files: listed, and fetched side by side."""

from __future__ import annotations

from concurrent.futures import Executor

from nbrewind.store import refs
from nbrewind.store.ref_index import RefIndex
from nbrewind.store.refs import Place
from nbrewind.store.remote.files import Files

FOLDER = "refs"


def ref_name(lineage: str, seq: int) -> str:
    """The name of a ref's file."""
    return f"{FOLDER}/{lineage}/{refs.file_name(seq)}"


class RemoteListing:
    """A `NameListing` of refs, which fetches what it finds new."""

    def __init__(self, files: Files, workers: Executor) -> None:
        self.fetched: dict[Place, bytes | OSError] = {}
        """Files not asked for so far, or what went wrong."""
        self.unseen: dict[str, str] = {}
        self._files = files
        self._workers = workers
        self._known: set[tuple[str, str]] = set()

    def scan(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """See `NameListing.scan`."""
        found: set[tuple[str, str]] = set()
        for name, _ in self._files.names(FOLDER):
            lineage, _, file = name.removeprefix(f"{FOLDER}/").partition("/")
            if refs.sequence(file) is not None:
                found.add((lineage, file))
        added = sorted(found - self._known)
        removed = sorted(self._known - found)
        self._known = found
        places = [(lineage, refs.sequence(file) or 0) for lineage, file in added]
        self.fetched = dict(zip(places, self._workers.map(self._fetch, places), strict=True))
        return added, removed

    def note(self, folder: str, name: str) -> None:
        """See `NameListing.note`."""
        self._known.add((folder, name))

    def _fetch(self, place: Place) -> bytes | OSError:
        try:
            return self._files.read(ref_name(*place))
        except OSError as problem:
            return problem


class RemoteRefs(RefIndex):
    """What is known of the refs among some files."""

    def __init__(self, files: Files, workers: Executor) -> None:
        self._remote = RemoteListing(files, workers)
        self._files = files
        super().__init__(f"{files.location}/{FOLDER}", self._remote)

    def _content(self, place: Place) -> bytes:
        content = self._remote.fetched.pop(place, None)
        if content is None:
            return self._files.read(ref_name(*place))
        if isinstance(content, OSError):
            raise content
        return content
