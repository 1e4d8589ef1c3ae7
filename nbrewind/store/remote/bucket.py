"""The files of a store in S3-compatible object storage, through `obstore`.

One attempt per request is made below; what is tried again, and when, is decided here, because
whoever adapts to the server must see it fail. Credentials are read by `obstore` from the
environment (`AWS_*`, instance and container roles) and stay there: no message of this module
has more of an answer than its status and the error's code.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from nbrewind.errors import StoreFormatError, UsageError
from nbrewind.store.remote.files import Files, Unreachable
from nbrewind.store.remote.retrying import Patience

if TYPE_CHECKING:
    from obstore.store import S3Store

_T = TypeVar("_T")

SCHEME = "s3://"

_process = 0
"""Whose connections those of `obstore` are; in a forked child they would wait for ever."""

_CONNECT = timedelta(seconds=5)
_REQUEST_SECONDS = 300.0
"""A pack over a line of one megabit a second."""
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_PASSING = {408, 409, 425, 429}
"""Statuses below 500 that trying again may change."""


class BucketFiles(Files):
    """Files below a prefix of a bucket.

    Args:
        location: `s3://bucket/prefix`.
        patience: How requests that fail for reasons that pass are repeated.
        seconds: After how many a request without an answer has failed.
    """

    def __init__(
        self,
        location: str,
        patience: Patience | None = None,
        seconds: float = _REQUEST_SECONDS,
    ) -> None:
        self.location = location.rstrip("/")
        self.patience = patience or Patience()
        self._store = _connect(self.location, seconds)

    def names(self, folder: str) -> Iterator[tuple[str, int]]:
        """See `Files.names`."""
        import obstore

        def attempt() -> list[tuple[str, int]]:
            pages = obstore.list(self._store, folder, chunk_size=1000)
            return [(entry["path"], entry["size"]) for page in pages for entry in page]

        yield from self._tried(folder, attempt)

    def read(self, name: str) -> bytes:
        """See `Files.read`."""
        import obstore

        return self._tried(name, lambda: bytes(obstore.get(self._store, name).bytes()))

    def read_range(self, name: str, start: int, length: int) -> memoryview:
        """See `Files.read_range`."""
        import obstore

        if not length:
            return memoryview(b"")
        return self._tried(
            name,
            lambda: memoryview(obstore.get_range(self._store, name, start=start, length=length)),
        )

    def read_end(self, name: str, length: int) -> tuple[bytes, int]:
        """See `Files.read_end`."""
        import obstore

        def attempt() -> tuple[bytes, int]:
            found = obstore.get(self._store, name, options={"range": {"suffix": length}})
            return bytes(found.bytes()), found.meta["size"]

        return self._tried(name, attempt)

    def write(self, name: str, content: bytes) -> None:
        """See `Files.write`."""
        import obstore

        # Never in parts: what an interrupted upload of parts leaves is billed and not seen.
        self._tried(name, lambda: obstore.put(self._store, name, content, use_multipart=False))

    def claim(self, name: str, content: bytes) -> bool:
        """See `Files.claim`."""
        return self.patience.run(lambda: self._claim(name, content))

    def _claim(self, name: str, content: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        def attempt() -> bool:
            try:
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

        if self._attempt(name, attempt):
            return True
        # 412: there is one, perhaps ours, whose answer was lost. 409: another request for the
        # name was under way, and its end is not known.
        try:
            return self._attempt(name, lambda: obstore.get(self._store, name).bytes()) == content
        except FileNotFoundError:
            raise Unreachable(f"{self._path(name)} was being written by someone else") from None

    def remove(self, name: str) -> None:
        """See `Files.remove`."""
        import obstore

        try:
            self._tried(name, lambda: obstore.delete(self._store, name))
        except FileNotFoundError:
            return

    def probe_claims(self) -> None:
        """Make sure that the server lets one of several writers claim a name.

        Raises:
            StoreFormatError: it ignores `If-None-Match`, so writers would overwrite each other.
        """
        name = f"tmp/probe-{uuid.uuid4().hex}"
        try:
            first = self.claim(name, b"first")
            second = self.claim(name, b"second")
            kept = self.read(name)
        finally:
            self.remove(name)
        if not first or second or kept != b"first":
            raise StoreFormatError(
                f"the server of {self.location} ignores conditional writes (If-None-Match), so "
                "two writers would overwrite each other's records: use another server, or a newer "
                "version of it"
            )

    def _path(self, name: str) -> str:
        return f"{self.location}/{name}"

    def _tried(self, name: str, action: Callable[[], _T]) -> _T:
        return self.patience.run(lambda: self._attempt(name, action))

    def _attempt(self, name: str, action: Callable[[], _T]) -> _T:
        """Do one thing; what goes wrong becomes an `OSError` without the answer's text."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            return action()
        except FileNotFoundError as exc:
            code = _CODE.search(str(exc))
            if code is not None and code[1] == "NoSuchBucket":
                raise OSError(f"{self.location}: there is no such bucket") from None
            raise FileNotFoundError(f"{self._path(name)} is not there") from None
        except (PermissionDeniedError, UnauthenticatedError) as exc:
            raise PermissionError(
                f"{self._path(name)}: access refused{_said(exc)}; are the credentials in the "
                "environment (AWS_ACCESS_KEY_ID, …) the right ones?"
            ) from None
        except (BaseError, OSError) as exc:
            status = _STATUS.search(str(exc))
            text = f"{self._path(name)}: {'no answer' if status is None else 'refused'}{_said(exc)}"
            if status is not None and int(status[1]) < 500 and int(status[1]) not in _PASSING:
                raise OSError(text) from None
            raise Unreachable(text) from None


def _said(problem: Exception) -> str:
    """Status and code of an answer, as far as there are any."""
    found = [
        match[1] for match in (_STATUS.search(str(problem)), _CODE.search(str(problem))) if match
    ]
    return f" ({' '.join(found)})" if found else ""


def _connect(location: str, seconds: float) -> S3Store:
    parts = urlsplit(location)
    if not location.startswith(SCHEME) or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"{location} is not the place of a store: s3://BUCKET/PREFIX is meant")
    if "@" in parts.netloc:
        raise UsageError(
            "the place of a store must not have credentials in it: put them into the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
        )
    try:
        from obstore.store import S3Store
    except ModuleNotFoundError as exc:
        raise UsageError(
            f"{location} needs the package obstore: pip install 'nbrewind[s3]'"
        ) from exc
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise Unreachable(f"{location}: a forked child cannot use its parent's connections")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    return S3Store(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": _CONNECT,
            "timeout": timedelta(seconds=seconds),
        },
        retry_config={"max_retries": 0},
    )
