"""Notebook files: reading with clear errors, writing without ever losing one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from nbrewind.errors import NotebookError

_POLICY_COMMENT = re.compile(r"\s*#\s*nbrewind\s*:\s*(never|always|auto)\s*$")


@dataclass
class NotebookFile:
    """A notebook in memory and the file it came from."""

    path: Path
    """Absolute, with links resolved: the file itself is replaced, not a link to it."""
    nb: NotebookNode
    notes: list[str] = field(default_factory=list)
    """What had to be put right while reading, for people."""
    digest: bytes = b""
    """Of the file's bytes as last read or written; tells whether someone else changed it."""

    def code_cells(self) -> list[tuple[int, NotebookNode]]:
        """Code cells with their positions among all cells, in order."""
        return [(at, cell) for at, cell in enumerate(self.nb.cells) if cell.cell_type == "code"]


def read_notebook(path: Path) -> NotebookFile:
    """Read a notebook of any format up to the current one.

    Raises:
        NotebookError: the file is missing, unreadable or not a notebook.
    """
    shown = str(path)
    try:
        path = path.resolve(strict=True)
        raw = path.read_bytes()
    except FileNotFoundError:
        raise NotebookError(f"{shown}: no such file; check the path of the notebook") from None
    except IsADirectoryError:
        raise NotebookError(f"{shown} is a folder; name the notebook inside it") from None
    except OSError as error:
        raise NotebookError(f"{shown} cannot be read: {error.strerror or error}") from error
    data = _parse(raw, shown)
    notes: list[str] = []
    if data["nbformat"] < 4:
        notes.append(f"notebook format {data['nbformat']} was upgraded to 4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ids, which `normalize` puts right
        try:
            nb = nbformat.convert(nbformat.reader.reads(raw.decode("utf-8-sig")), 4)
            if (nb.nbformat, nb.nbformat_minor) >= (4, 5):
                _, nb = nbformat.validator.normalize(nb)
        except Exception as error:  # converters raise whatever the damage leads to
            raise NotebookError(
                f"{shown} is damaged: {type(error).__name__}: {error}; open and save it in Jupyter"
            ) from error
    if not all(_is_cell(cell) for cell in nb.get("cells", [None])):
        raise NotebookError(f"{shown} is damaged: a cell lacks its type or source")
    return NotebookFile(path, nb, notes, hashlib.sha256(raw).digest())


def _parse(raw: bytes, shown: str) -> dict[str, Any]:
    try:
        data = json.loads(raw.decode("utf-8-sig"))
    except ValueError as error:
        what = "is empty" if not raw.strip() else f"is not JSON ({error})"
        raise NotebookError(f"{shown} is not a notebook: it {what}") from None
    if not isinstance(data, dict) or not isinstance(data.get("nbformat"), int):
        raise NotebookError(f"{shown} is not a notebook: it has no `nbformat` number")
    if data["nbformat"] > 4:
        raise NotebookError(
            f"{shown} has notebook format {data['nbformat']}, newer than this nbformat knows; "
            "update nbformat"
        )
    return data


def _is_cell(cell: object) -> bool:
    return (
        isinstance(cell, Mapping)
        and isinstance(cell.get("cell_type"), str)
        and isinstance(cell.get("source"), str)
        and isinstance(cell.get("metadata"), Mapping)
    )


def write_notebook(file: NotebookFile, target: Path | None = None) -> Path:
    """Write a notebook atomically; return where it went.

    If the notebook's own file was changed by someone else since it was read,
    it is left alone and the result goes to `NAME.nbrewind.ipynb` beside it.

    Raises:
        NotebookError: nothing could be written; the former file is intact.
    """
    text = nbformat.writes(file.nb, version=nbformat.NO_CONVERT)
    # A lone surrogate in an output becomes its JSON escape.
    raw = (text if text.endswith("\n") else text + "\n").encode("utf-8", "backslashreplace")
    where = target.resolve() if target is not None else file.path
    own = where == file.path
    if own:
        on_disk = _digest_of(where)
        if on_disk is not None and on_disk != file.digest:
            where, own = where.with_name(f"{where.stem}.nbrewind.ipynb"), False
            file.notes.append(
                f"{file.path.name} was changed while it ran; the result is in {where.name}"
            )
            file.path = where
        elif on_disk == hashlib.sha256(raw).digest():
            return where
    try:
        replace_file(where, raw)
    except OSError as error:
        raise NotebookError(
            f"{where} cannot be written: {error.strerror or error}; use -o to write elsewhere"
        ) from error
    if where == file.path:
        file.digest = hashlib.sha256(raw).digest()
    return where


def check_writable(target: Path) -> None:
    """Find out before hours of work whether their result can be written.

    Raises:
        NotebookError: it cannot.
    """
    folder = target.resolve().parent
    if target.is_dir():
        raise NotebookError(f"{target} is a folder; name a file to write")
    if not folder.is_dir():
        raise NotebookError(f"{folder} does not exist; create it or write elsewhere with -o")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotebookError(f"{folder} cannot be written; use -o to write elsewhere")


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: afterwards the old or the new file is there, whole."""
    mode = None
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(path.stat().st_mode)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            os.fchmod(out.fileno(), mode if mode is not None else 0o666 & ~_umask())
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _digest_of(path: Path) -> bytes | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None


def cell_policy(source: str, metadata: Mapping[str, Any]) -> str:
    """When a cell may be reused: `never`, `always` or `auto`.

    The cell's metadata (`{"nbrewind": {"cache": …}}`) wins over a comment
    `# nbrewind: never` in its first line.
    """
    own = metadata.get("nbrewind")
    if isinstance(own, Mapping) and own.get("cache") in ("never", "always", "auto"):
        return str(own["cache"])
    found = _POLICY_COMMENT.match(source.split("\n", 1)[0])
    return found.group(1) if found else "auto"


def tags_of(cell: NotebookNode) -> frozenset[str]:
    """The tags of a cell."""
    tags = cell.metadata.get("tags", [])
    return frozenset(tags) if isinstance(tags, list) else frozenset()


def first_line(source: str) -> str:
    """The line that tells a reader which cell this is: the first that is not a comment."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("#")), lines[0] if lines else "")
