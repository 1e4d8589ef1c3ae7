"""Files of a checkpoint: which are meant, and writing them so that a reader sees all or none."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nbrewind.errors import CheckpointError
from nbrewind.store import durable


def inside(folder: Path, name: str) -> Path:
    """The file that an index means by a name.

    Raises:
        CheckpointError: the name leads out of the folder, or there is no such file.
    """
    pure = PurePosixPath(name)
    if not name or "\0" in name or pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise CheckpointError(f"an index in {folder} names {name!r}, which is not in that folder")
    path = folder / name
    if not path.is_file():
        raise CheckpointError(f"{path} is missing: the index in {folder} names it")
    return path


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which gets its name when all is written and durable.

    Raises:
        CheckpointError: there is something of that name already.
        StoreNotWritable: it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(f"{folder} is there already: choose another name")
    with durable.writing(str(folder)):
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        part.mkdir()
    try:
        with durable.writing(str(folder)):
            yield part
            for path in part.rglob("*"):
                _sync(path)
            durable.sync_directory(str(part))
            if folder.is_dir():
                folder.rmdir()
            part.rename(folder)
            durable.sync_directory(str(folder.parent))
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A file to write, which gets its name when it is durable; an older one is replaced.

    Raises:
        StoreNotWritable: it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with durable.writing(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield part
            _sync(part)
            part.rename(path)
            durable.sync_directory(str(path.parent))
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    if path.is_dir():
        durable.sync_directory(str(path))
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        durable.sync_file(fd)
    finally:
        os.close(fd)
