"""Publishing a ref: the step that makes a commit visible, for one winner per number."""

from __future__ import annotations

import errno
import os

import msgspec

from nbrewind.errors import StoreNotWritable
from nbrewind.model.refs import RefBody
from nbrewind.store import durable, refs
from nbrewind.store.refs import SignedRef

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_MOST_ATTEMPTS = 100_000


def publish(root: str, session: str, body: RefBody, first: int) -> tuple[RefBody, SignedRef]:
    """Claim the next free number of the body's lineage and publish the signed ref under it.

    Args:
        root: The store's `refs` directory.
        session: This process's temporary directory.
        body: What to say; its number is replaced by the claimed one.
        first: The first number to try.

    Raises:
        OSError: nothing was published.
        TrustError: it cannot be signed.
    """
    folder = os.path.join(root, refs.check_lineage(body.lineage))
    durable.make_directory(folder)
    seq = first
    for _ in range(_MOST_ATTEMPTS):
        claimed = msgspec.structs.replace(body, seq=seq)
        content, signed = refs.encode(claimed)
        path = os.path.join(folder, refs.file_name(seq))
        if not os.path.exists(path) and _claim(session, path, content):
            try:
                durable.sync_directory(folder)
            except OSError:
                durable.discard(path)  # visible, but it might not survive: not acknowledged
                raise
            return claimed, signed
        seq = max(seq, _last(folder)) + 1
    raise StoreNotWritable(f"no free number was found in {folder}: remove what fills it")


def _claim(session: str, path: str, content: bytes) -> bool:
    """Give a ref its final name; False if another one has it."""
    temporary = os.path.join(session, os.path.basename(path))
    durable.discard(temporary)
    durable.write_small(temporary, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        # Over NFS a link can succeed and its answer be lost; the second try then finds itself.
        return os.stat(temporary).st_nlink == 2
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        return _create(path, content)
    finally:
        durable.discard(temporary)
    return True


def _create(path: str, content: bytes) -> bool:
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
        os.close(fd)
    return True


def _last(folder: str) -> int:
    numbers = [refs.sequence(name) for name in os.listdir(folder)]
    return max((number for number in numbers if number is not None), default=-1)
