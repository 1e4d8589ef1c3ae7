"""The history of each path during one run, and what it amounts to.

The version a run read of a path is its content before the run changed it. It is
digested when the first change is announced, or after the run if none was.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nbrewind.model.records import FileAccess
from nbrewind.model.versions import ABSENT, PRESENT, Version
from nbrewind.state.digests import digest_file, listing_version
from nbrewind.state.file_events import How, Touch

_LARGEST_TREE = 20_000


@dataclass(slots=True)
class _Path:
    """What happened to one path so far."""

    existed: bool
    """Before the run."""
    folder: bool
    mode: int
    read: Version | None = None
    stamp: tuple[int, int, int] | None = None
    """Inode, size and time of modification when its content was first looked at."""
    wanted: bool = False
    """The run looked at its content, or looked for it in vain, before changing it."""
    changed: bool = False
    removed: bool = False
    """The last change was its removal."""
    ensured: bool = False
    """The run made it a folder, or removed it, whatever was there."""
    asked_if_folder: bool = False
    """The run looked for a folder, and there was none."""


class History:
    """Paths of one run in the order of their first use."""

    def __init__(self) -> None:
        self._paths: dict[str, _Path] = {}
        self.untracked = False
        """Something happened that cannot be put back."""

    def note(self, touch: Touch) -> None:
        """Take note of something that is about to happen."""
        _NOTES[touch.how](self, touch)

    def changed_through_open_file(self, path: str, before: Version) -> None:
        """Report a file that an earlier run left open, if this one changed it."""
        if not self.is_changed(path) and digest_file(path) != before:
            self.changed_unseen(path, before, folder=False, depends=True)

    def changed_unseen(
        self, path: str, before: Version | None, *, folder: bool, depends: bool
    ) -> None:
        """Report a change that was not announced.

        Args:
            path: What was changed.
            before: What was there; None if that is not known.
            folder: It is, or was, a folder.
            depends: What was there before counts.
        """
        entry = self._paths.get(path)
        if entry is None:
            entry = self._paths[path] = _Path(before != ABSENT, folder, 0)
        depends = depends or entry.wanted or entry.read is not None
        if depends and entry.read in (None, PRESENT):
            entry.read = before
            self.untracked = self.untracked or before is None
        entry.existed = before != ABSENT
        entry.folder = entry.folder or folder
        entry.changed = True

    def gone_unseen(self, path: str) -> None:
        """Report that a file is not there any more, whether or not it was before."""
        if not os.path.lexists(path):
            entry = self._paths.setdefault(path, _Path(False, False, 0))
            entry.changed = entry.removed = entry.ensured = True

    def folders_gone_unseen(self, paths: Iterable[str]) -> None:
        """Folders were removed: what was in them counts, because all of it is gone."""
        for path in paths:
            entry = self._paths.get(path)
            if entry is not None and entry.existed and not os.path.lexists(path):
                inside = (p for p, e in self._paths.items() if e.existed and e.changed)
                names = [os.path.basename(p) for p in inside if os.path.dirname(p) == path]
                entry.read = listing_version(names)

    def is_changed(self, path: str) -> bool:
        """Whether the run is known to have changed a path."""
        entry = self._paths.get(path)
        return entry is not None and entry.changed

    def is_read(self, path: str) -> bool:
        """Whether the run is known to depend on a path."""
        entry = self._paths.get(path)
        return entry is not None and (entry.wanted or entry.read is not None)

    def is_listed_or_read(self, path: str) -> bool:
        """Whether a path's content, or a folder's listing, is known to be read."""
        entry = self._paths.get(path)
        return entry is not None and entry.wanted

    def paths(self) -> list[str]:
        """All paths so far."""
        return list(self._paths)

    def written_files(self) -> set[str]:
        """Files that the run may have changed."""
        return {p for p, e in self._paths.items() if e.changed and os.path.isfile(p)}

    def accesses(self) -> Iterator[FileAccess]:
        """What it all amounts to; paths are absolute."""
        for path, entry in self._paths.items():
            access = self._access(path, entry)
            if access.read is not None or access.write is not None:
                yield access

    def _access(self, path: str, entry: _Path) -> FileAccess:
        exists = os.path.lexists(path)
        asked = entry.asked_if_folder and not entry.wanted and entry.read is None
        if asked and not (entry.changed and exists):
            # A file that the run wrote there would have been no folder either.
            entry.read = PRESENT if entry.existed else ABSENT
        if entry.ensured and exists == (entry.folder and os.path.isdir(path)):
            there = PRESENT if exists else ABSENT
            return FileAccess(path=path, read=entry.read, write=there, directory=entry.folder)
        if not entry.changed:
            if entry.read is None and not os.path.isdir(path):
                entry.read = digest_file(path)
                # Another program has changed it meanwhile: what the run read is not known.
                self.untracked = self.untracked or entry.stamp not in (None, _stamp(path))
            return FileAccess(path=path, read=entry.read)
        if not exists and not entry.existed:
            # Made and gone again: it matters only if the run had looked for it before.
            return FileAccess(path=path, read=entry.read if entry.wanted else None)
        if not exists:
            folder = entry.folder
            return FileAccess(path=path, read=entry.read, write=ABSENT, directory=folder)
        if entry.removed:  # announced, but it failed
            return FileAccess(path=path, read=entry.read)
        if os.path.islink(path):
            return self._linked(path, entry)
        if os.path.isdir(path):
            if entry.existed and entry.folder:
                return FileAccess(path=path, read=entry.read)
            if entry.asked_if_folder and entry.read is None:
                entry.read = ABSENT
            return FileAccess(path=path, read=entry.read, write=PRESENT, directory=True)
        return self._written(path, entry)

    def _linked(self, path: str, entry: _Path) -> FileAccess:
        version = PRESENT if os.path.isdir(path) else digest_file(path)
        if version == ABSENT:
            self.untracked = True  # it leads to nothing: there is no version to compare
        if entry.read == version and entry.existed:
            return FileAccess(path=path, read=version)
        return FileAccess(path=path, read=entry.read, write=version, link=os.readlink(path))

    def _written(self, path: str, entry: _Path) -> FileAccess:
        version = digest_file(path)
        mode = _mode(path)
        if version == PRESENT:
            self.untracked = True  # a pipe, a device: nothing to put back
        if entry.read == version and entry.mode == mode:
            return FileAccess(path=path, read=version)
        return FileAccess(path=path, read=entry.read, write=version, mode=mode)

    def _entry(self, path: str) -> _Path:
        entry = self._paths.get(path)
        if entry is None:
            exists = os.path.lexists(path) and not self.is_in_new_folder(path)
            folder = exists and os.path.isdir(path)
            entry = self._paths[path] = _Path(exists, folder, _mode(path) if exists else 0)
        return entry

    def _look(self, path: str, version: Version | None = None) -> _Path:
        """The run depends on what the path was before it; by default on its content."""
        entry = self._entry(path)
        if entry.changed:
            return entry
        if not entry.existed:
            entry.read = ABSENT
        elif entry.read in (None, PRESENT):
            entry.read = version or entry.read
        return entry

    def _read(self, touch: Touch) -> None:
        entry = self._look(touch.path)
        if not entry.changed:
            if entry.read == PRESENT:
                entry.read = None  # existence was enough so far; now content counts
            if not entry.wanted:
                entry.stamp = _stamp(touch.path)
            entry.wanted = True

    def _check(self, touch: Touch) -> None:
        if touch.path not in self._paths and self.is_in_new_folder(touch.path):
            return
        entry = self._entry(touch.path)
        if entry.wanted or entry.changed:
            return  # what was read says more; what the run made is no input
        if entry.read is None:
            entry.read = PRESENT if entry.existed else ABSENT
        entry.wanted = not entry.existed

    def _check_folder(self, touch: Touch) -> None:
        if touch.path not in self._paths and self.is_in_new_folder(touch.path):
            return
        if self._entry(touch.path).folder:
            self._check(touch)
        else:
            self._entry(touch.path).asked_if_folder = True

    def _stat(self, touch: Touch) -> None:
        # Times cannot be put back, and would differ after every checkout: content decides.
        if touch.path not in self._paths and self.is_in_new_folder(touch.path):
            return
        if self._entry(touch.path).folder:
            self._check(touch)
        else:
            self._read(touch)

    def is_in_new_folder(self, path: str) -> bool:
        """Whether the run made the folder, so that it made all that is in it as well.

        Writers in C raise no events: what they put into a temporary folder would
        otherwise pass for a file that was there before.
        """
        folder = os.path.dirname(path)
        while folder != path:
            entry = self._paths.get(folder)
            if entry is not None and entry.changed:
                return not entry.existed
            path, folder = folder, os.path.dirname(folder)
        return False

    def _update(self, touch: Touch) -> None:
        entry = self._look(touch.path)
        self._change(touch.path, entry, needs_content=True)

    def _replace(self, touch: Touch) -> None:
        self._change(touch.path, self._entry(touch.path))

    def _create(self, touch: Touch) -> None:
        entry = self._look(touch.path, PRESENT)
        if not entry.existed or entry.changed:
            self._change(touch.path, entry)

    def _change(self, path: str, entry: _Path, needs_content: bool = False) -> None:
        if not entry.changed:
            content_counts = needs_content or entry.wanted
            if content_counts and entry.existed and entry.read in (None, PRESENT):
                entry.read = digest_file(path)
            entry.changed = True
        entry.removed = False

    def _remove(self, touch: Touch) -> None:
        entry = self._look(touch.path, PRESENT)
        if os.path.lexists(touch.path):
            self._change(touch.path, entry)
            entry.removed = True
        elif not entry.changed:
            entry.wanted = True

    def _list(self, touch: Touch) -> None:
        entry = self._entry(touch.path)
        if entry.changed or entry.wanted:
            return
        entry.wanted = True
        entry.read = self._listing_before(touch.path) if entry.existed else ABSENT

    def _listing_before(self, folder: str) -> Version | None:
        """A folder's listing as it was before this run."""
        try:
            names = set(os.listdir(folder))
        except OSError:
            return None
        for path, entry in self._paths.items():
            if entry.changed and os.path.dirname(path) == folder:
                (names.add if entry.existed else names.discard)(os.path.basename(path))
        return listing_version(names)

    def _make_folder(self, touch: Touch) -> None:
        entry = self._look(touch.path, PRESENT)
        if not os.path.lexists(touch.path):
            self._change(touch.path, entry)
            entry.folder = entry.folder or not entry.existed

    def _make_named_folder(self, touch: Touch) -> None:
        if not os.path.lexists(touch.path):
            entry = self._entry(touch.path)
            self._change(touch.path, entry)
            entry.folder = True

    def _remove_folder(self, touch: Touch) -> None:
        entry = self._entry(touch.path)
        if not entry.changed and entry.read in (None, PRESENT):
            entry.read = self._listing_before(touch.path) if entry.existed else ABSENT
        if os.path.lexists(touch.path):
            self._change(touch.path, entry)
            entry.removed = True

    def _remove_tree(self, touch: Touch) -> None:
        if not os.path.isdir(touch.path) or os.path.islink(touch.path):
            self._look(touch.path, PRESENT)
            return
        for path, is_folder in self._tree(touch.path):
            how = How.REMOVE_FOLDER if is_folder else How.REMOVE
            self.note(Touch(how, path))

    def _move(self, touch: Touch) -> None:
        source, target = touch.path, touch.target
        if not os.path.lexists(source):
            self._look(source).wanted = True
            return
        if os.path.isdir(source) and not os.path.islink(source):
            for path, is_folder in list(self._tree(source)):
                there = target + path[len(source) :]
                self._move_one(path, there, is_folder)
        else:
            self._move_one(source, target, is_folder=False)

    def _move_one(self, source: str, target: str, is_folder: bool) -> None:
        if is_folder:
            self._remove_folder(Touch(How.REMOVE_FOLDER, source))
            self._make_folder(Touch(How.MAKE_FOLDER, target))
            return
        # What the target will hold is what the source held, so that was read.
        entry = self._look(source)
        self._change(source, entry, needs_content=True)
        entry.removed = True
        self._replace(Touch(How.REPLACE, target))

    def _tree(self, top: str) -> Iterator[tuple[str, bool]]:
        """Everything below `top` and itself, content before its folder."""
        count = 0
        for folder, folders, files in os.walk(top, topdown=False):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*files, *links):
                yield os.path.join(folder, name), False
            yield folder, True
            count += 1 + len(files)
            if count > _LARGEST_TREE:
                self.untracked = True
                return

    def _ensure_folder(self, touch: Touch) -> None:
        if os.path.lexists(touch.path) and not os.path.isdir(touch.path):
            self._make_folder(touch)  # which fails
            return
        entry = self._entry(touch.path)
        entry.folder = entry.ensured = True
        if not os.path.lexists(touch.path):
            self._change(touch.path, entry)

    def _ensure_gone(self, touch: Touch) -> None:
        if os.path.isdir(touch.path) and not os.path.islink(touch.path):
            self._remove(touch)  # which fails
            return
        entry = self._entry(touch.path)
        entry.ensured = True
        self._change(touch.path, entry)
        entry.removed = True

    def _mode_change(self, touch: Touch) -> None:
        entry = self._look(touch.path)
        if os.path.isfile(touch.path):
            self._change(touch.path, entry, needs_content=True)

    def _link(self, touch: Touch) -> None:
        entry = self._look(touch.path, PRESENT)
        if os.path.lexists(touch.path):
            return  # it will fail
        if os.path.isfile(touch.target):  # what it leads to is what it will hold
            self._read(Touch(How.READ, os.path.normpath(touch.target)))
        self._change(touch.path, entry)


_NOTES = {
    How.READ: History._read,
    How.UPDATE: History._update,
    How.REPLACE: History._replace,
    How.CREATE: History._create,
    How.REMOVE: History._remove,
    How.LIST: History._list,
    How.MAKE_FOLDER: History._make_folder,
    How.REMOVE_FOLDER: History._remove_folder,
    How.REMOVE_TREE: History._remove_tree,
    How.MOVE: History._move,
    How.MODE: History._mode_change,
    How.ENSURE_FOLDER: History._ensure_folder,
    How.NAME_FOLDER: History._make_named_folder,
    How.ENSURE_GONE: History._ensure_gone,
    How.LINK: History._link,
    How.CHECK: History._check,
    How.CHECK_FOLDER: History._check_folder,
    How.STAT: History._stat,
}


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return 0
