"""Bring a file to the state that a recorded run left it in, inside the notebook's folder only."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from nbrewind.errors import NotRestorable
from nbrewind.model.records import FileAccess
from nbrewind.model.versions import ABSENT
from nbrewind.state.audit import unheard


def put_back(root: Path, access: FileAccess, data: bytes | None = None) -> None:
    """Write, make or remove what `access` says its run wrote, made or removed.

    Files appear whole or not at all, even for readers at work: they are written under
    another name in the same folder, and renamed. Missing folders on the way are made.

    Args:
        root: The notebook's folder.
        access: What a run did; nothing happens if it only read.
        data: Content of a file to write.

    A link is made only if it leads to something inside `root`.

    Raises:
        NotRestorable: The path leads out of `root`, a folder stands where a file should
            (or the other way round), the content is missing, or the disk refuses.
    """
    if access.write is None:
        return
    in_place = access.write == ABSENT or bool(access.link)
    target = _checked(root, access.path, in_place=in_place)
    with unheard():
        try:
            if access.directory:
                _put_folder(target, present=access.write != ABSENT)
            elif access.write == ABSENT:
                target.unlink(missing_ok=True)
            elif access.link:
                _put_link(root, target, access.link)
            elif data is None:
                raise NotRestorable(f"{access.path}: its content was not kept; run its cell again")
            else:
                _put_file(target, data, access.mode)
        except OSError as error:
            raise NotRestorable(f"{access.path}: cannot be put back: {error}") from error


def _checked(root: Path, path: str, in_place: bool) -> Path:
    """The absolute path; refused if it is not inside `root` once links are followed.

    A link is removed and made as itself, but written through: only then must it lead inside.
    """
    base = root.resolve()
    place = base / path
    target = place.parent.resolve() / place.name if in_place else place.resolve()
    if os.path.isabs(path) or place.name == ".." or base not in target.parents:
        raise NotRestorable(f"{path}: leads out of {base}; files there are never written")
    return target


def _put_folder(target: Path, present: bool) -> None:
    if present:
        target.mkdir(parents=True, exist_ok=True)
    elif target.is_dir():
        target.rmdir()


def _put_link(root: Path, target: Path, text: str) -> None:
    _checked(root, os.path.relpath(target.parent / text, root.resolve()), in_place=False)
    if target.is_symlink() or target.is_file():
        target.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(text)


def _put_file(target: Path, data: bytes, mode: int) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder")
    if _is_there(target, data, mode):
        return  # whoever has it open keeps what everyone else sees
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name[:100]}.{secrets.token_hex(6)}.nbrewind"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _is_there(target: Path, data: bytes, mode: int) -> bool:
    try:
        status = target.stat()
        same = status.st_size == len(data) and stat.S_IMODE(status.st_mode) == mode
        return same and target.read_bytes() == data
    except OSError:
        return False
