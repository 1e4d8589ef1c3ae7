"""The refs of a store of which there is nothing but files: listed, and fetched side by side."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from nbrewind.store import ref_segments, refs
from nbrewind.store.ref_index import RefIndex
from nbrewind.store.ref_segments import RefSegments
from nbrewind.store.refs import Place
from nbrewind.store.remote.files import Files

FOLDER = "refs"
SEGMENTS = "idx"


def ref_name(lineage: str, seq: int) -> str:
    """The name of a ref's file."""
    return f"{FOLDER}/{lineage}/{refs.file_name(seq)}"


class RemoteListing:
    """A `NameListing` of refs."""

    def __init__(self, files: Files) -> None:
        self.unseen: dict[str, str] = {}
        self._files = files
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
        return added, removed

    def note(self, folder: str, name: str) -> None:
        """See `NameListing.note`."""
        self._known.add((folder, name))


class RemoteRefSegments(RefSegments):
    """Ref segments among some files."""

    def __init__(self, files: Files, *, read_only: bool) -> None:
        super().__init__(f"{files.location}/{SEGMENTS}", read_only=read_only)
        self._files = files

    def _names(self) -> list[str]:
        names = (name.removeprefix(f"{SEGMENTS}/") for name, _ in self._files.names(SEGMENTS))
        return sorted(name for name in names if name.endswith(ref_segments.SUFFIX))

    def _fetch(self, name: str) -> bytes:
        return self._files.read(f"{SEGMENTS}/{name}")

    def _put(self, name: str, content: bytes) -> None:
        self._files.write(f"{SEGMENTS}/{name}", content)

    def _remove(self, name: str) -> None:
        self._files.remove(f"{SEGMENTS}/{name}")


class RemoteRefs(RefIndex):
    """What is known of the refs among some files."""

    def __init__(self, files: Files, workers: Executor, *, read_only: bool) -> None:
        super().__init__(
            f"{files.location}/{FOLDER}",
            RemoteListing(files),
            RemoteRefSegments(files, read_only=read_only),
        )
        self._files = files
        self._workers = workers
        self._prepared: dict[Place, bytes | OSError] = {}

    def _prepare(self, places: Sequence[Place]) -> None:
        self._prepared = dict(zip(places, self._workers.map(self._fetch, places), strict=True))

    def _content(self, place: Place) -> bytes:
        content = self._prepared.pop(place, None) or self._fetch(place)
        if isinstance(content, OSError):
            raise content
        return content

    def _fetch(self, place: Place) -> bytes | OSError:
        try:
            return self._files.read(ref_name(*place))
        except OSError as problem:
            return problem
