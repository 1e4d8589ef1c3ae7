"""Publishing a ref: the step that makes a commit visible, for one winner per number."""

from __future__ import annotations

import errno
import os
import uuid

import msgspec

from nbrewind.errors import StoreNotWritable
from nbrewind.model.refs import RefBody
from nbrewind.store import durable, refs
from nbrewind.store.refs import SignedRef

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_MOST_ATTEMPTS = 100_000


class RefFile:
    """A ref on its way: written durably under a temporary name, then linked to a free number.

    Whoever links it synchronises `folder` afterwards: only then is it acknowledged.

    Args:
        root: The store's `refs` directory.
        session: This process's temporary directory.
        body: What to say; its number is the first to try.

    Methods raise `OSError` (nothing was published) and `TrustError` (it cannot be signed).
    """

    def __init__(self, root: str, session: str, body: RefBody) -> None:
        self.folder = os.path.join(root, refs.check_lineage(body.lineage))
        self.body = body
        self.signed: SignedRef | None = None
        # Several refs of one number, of one lineage or of several, can be under way at once.
        self._temporary = os.path.join(session, f"{uuid.uuid4().hex}{refs.SUFFIX}")
        self._content = b""

    @property
    def path(self) -> str:
        """Where it goes, or is once it is linked."""
        return os.path.join(self.folder, refs.file_name(self.body.seq))

    def write(self) -> None:
        """Sign it and write it under its temporary name."""
        self._content, self.signed = refs.encode(self.body)
        durable.discard(self._temporary)
        durable.write_small(self._temporary, self._content)

    def link(self) -> None:
        """Claim its number, or the next free one, which is signed anew.

        Raises:
            StoreNotWritable: no number is free.
        """
        try:
            for _ in range(_MOST_ATTEMPTS):
                if not os.path.exists(self.path) and self._claim():
                    return
                durable.discard(self._temporary)
                seq = max(self.body.seq, _last(self.folder)) + 1
                self.body = msgspec.structs.replace(self.body, seq=seq)
                self.write()
        finally:
            durable.discard(self._temporary)
        raise StoreNotWritable(f"no free number was found in {self.folder}: remove what fills it")

    def withdraw(self) -> None:
        """Take it back: it is visible, but might not survive, so it is not acknowledged."""
        durable.discard(self.path)

    def discard(self) -> None:
        """Forget it before it is linked."""
        durable.discard(self._temporary)

    def _claim(self) -> bool:
        """Give the ref its final name; False if another one has it."""
        try:
            os.link(self._temporary, self.path)
        except OSError as exc:
            # Over a network a link can succeed and its answer be lost: then both names are one
            # file. The number of links would not tell: a backup makes more, some systems count
            # none.
            if durable.same_file(self._temporary, self.path):
                return True
            if isinstance(exc, FileExistsError):
                return False
            if not links_refused(exc):
                raise
            return create_exclusively(self.path, self._content)
        return True


def links_refused(problem: OSError) -> bool:
    """Whether a link failed because there are none in this file system."""
    return problem.errno in _NO_LINKS


def create_exclusively(path: str, content: bytes) -> bool:
    """Where hard links are refused: readers skip the file until its digest is right."""
    try:
        fd = durable.create(path)
    except FileExistsError:
        return False
    try:
        durable.write_all(fd, [content])
        durable.sync_file(fd)
    except OSError:
        durable.discard(path)
        raise
    finally:
        durable.close(fd)
    return True


def _last(folder: str) -> int:
    numbers = [refs.sequence(name) for name in os.listdir(folder)]
    return max((number for number in numbers if number is not None), default=-1)
