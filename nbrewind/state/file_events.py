"""What each audit event says about files, processes and the network."""

from __future__ import annotations

import importlib
import os
import pathlib
import pkgutil
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from types import FrameType
from typing import Any

from nbrewind.state.command_lines import Told

_FLAGS = {
    "subprocess.Popen": "process",
    "os.system": "process",
    "os.posix_spawn": "process",
    "os.spawn": "process",
    "os.exec": "process",
    "os.fork": "process",
    "os.forkpty": "process",
    "os.startfile": "process",
    "pty.spawn": "process",
    "socket.connect": "network",
    "socket.sendto": "network",
    "socket.sendmsg": "network",
    "socket.getaddrinfo": "network",
    "socket.gethostbyname": "network",
}

EVENTS = (
    *_FLAGS,
    "open",
    "os.listdir",
    "os.scandir",
    "os.mkdir",
    "os.rmdir",
    "os.remove",
    "os.rename",
    "os.truncate",
    "os.chmod",
    "os.link",
    "os.symlink",
    "shutil.rmtree",
    "sqlite3.connect",
)
"""The events that are worth listening to."""

_IMPORT_FILES = frozenset(
    {
        "<frozen importlib._bootstrap>",
        "<frozen importlib._bootstrap_external>",
        "<frozen zipimport>",
    }
)
_IMPORT_FOLDERS = (
    os.path.dirname(importlib.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)
_SOURCE_SHOWERS = ("linecache.py", "inspect.py", "traceback.py")
_PROBES = frozenset({"ldconfig", "lscpu", "uname", "fc-list"})


class How(Enum):
    """What is done to a path."""

    READ = auto()
    """Its content is read."""
    UPDATE = auto()
    """Its content is read and changed."""
    REPLACE = auto()
    """Its content is changed without being looked at."""
    CREATE = auto()
    """It is made, and must not exist yet."""
    REMOVE = auto()
    LIST = auto()
    MAKE_FOLDER = auto()
    REMOVE_FOLDER = auto()
    REMOVE_TREE = auto()
    MOVE = auto()
    """It is renamed to `target`."""
    MODE = auto()
    """Its permission bits change."""
    ENSURE_FOLDER = auto()
    """It is made unless it is there."""
    NAME_FOLDER = auto()
    """It is made under a name that was found to be free; another would do."""
    ENSURE_GONE = auto()
    """It is removed if it is there."""
    LINK = auto()
    """A symbolic link to `target` is made at the path."""
    CHECK = auto()
    """It is looked for; only whether it is there counts."""
    CHECK_FOLDER = auto()
    """It is looked for as a folder: a file is as good as nothing."""
    STAT = auto()
    """Its size or times are looked at; for a folder, as for a check, whether it is there."""


@dataclass(frozen=True, slots=True)
class Touch:
    """One thing done to one path."""

    how: How
    path: str
    """Absolute."""
    target: str = ""


def is_tooling(event: str, frame: FrameType | None) -> bool:
    """Whether an event comes from Python's own machinery and tells nothing about the run.

    Imports list every folder of `sys.path` and read sources, whose versions are kept
    with the modules; tracebacks read lines to show; `rmtree` announces itself as a whole.
    """
    if frame is None:
        return False
    code = frame.f_code
    name = code.co_filename
    if name in _IMPORT_FILES or name.startswith(_IMPORT_FOLDERS):
        # `pkgutil.get_data` asks a module's loader for a file that is no module.
        return not (code.co_name == "get_data" and _is_asked_by(frame, pkgutil.__file__))
    if name == shutil.__file__:
        return code.co_name.startswith("_rmtree")
    if name == subprocess.__file__:
        return event == "os.posix_spawn"  # follows a `subprocess.Popen` that was judged
    if event == "open" and code.co_name == "open" and name.endswith("tokenize.py"):
        return frame.f_back is not None and frame.f_back.f_code.co_filename.endswith(
            _SOURCE_SHOWERS
        )
    return False


def _is_asked_by(frame: FrameType, file: str) -> bool:
    return frame.f_back is not None and frame.f_back.f_code.co_filename == file


def flag_of(event: str, args: tuple[Any, ...]) -> str | None:
    """The flag that an event raises for the run, if any: `process` or `network`."""
    flag = _FLAGS.get(event)
    return None if flag == "network" and not _is_network(event, args) else flag


def is_probe(event: str, args: tuple[Any, ...]) -> bool:
    """Whether a process only asks about the machine: libraries start such on their own."""
    return event == "subprocess.Popen" and _asks_about_machine(args[1])


LAUNCHER = "nbrewind.training.launching.agent"
"""The module, run as a program, that starts processes for code of the notebook."""


def tell_command(
    told: Told, event: str, args: tuple[Any, ...], frame: FrameType | None, texts: Iterable[str]
) -> bool:
    """Add what the start of a process says of itself to what is told.

    Args:
        told: What is known of the run's programs.
        event: The event by which it was announced.
        args: The event's arguments.
        frame: What started it.
        texts: Texts that a script may be, if it comes through standard input.

    Returns:
        Whether it is another program; if not, the notebook's own code goes on in the child.
    """
    folder = os.getcwd()
    scripts = [text for text in texts if "\n" in text]
    if event == "subprocess.Popen" and LAUNCHER in _words(args[1]):
        return False  # it takes functions and values of the notebook to other processes
    if event == "subprocess.Popen":
        _, command, cwd, *_ = args
        if cwd is not None:
            folder = os.path.join(folder, os.fsdecode(cwd))
        told.argv(_words(command), folder, scripts)
    elif event == "os.system":
        told.shell(os.fsdecode(args[0]), folder)
    elif event in ("os.posix_spawn", "os.exec"):
        told.argv(_words(args[1]), folder, scripts)
    elif event == "os.spawn":
        told.argv(_words(args[2]), folder, scripts)
    elif event == "os.forkpty" and (words := _in_terminal(frame)):
        told.argv(words, folder, scripts)
    else:
        return False
    return True


def _words(command: Any) -> list[str]:
    words = [command] if isinstance(command, str | bytes | os.PathLike) else list(command or ())
    return [os.fsdecode(word) for word in words]


def _in_terminal(frame: FrameType | None) -> list[str]:
    """What is about to run in a terminal of its own, by `pexpect`: `!command` does it so."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "spawn" and "ptyprocess" in code.co_filename:
            return _words(frame.f_locals.get("argv"))
        frame = frame.f_back
    return []


def touches(event: str, args: tuple[Any, ...], frame: FrameType | None = None) -> Iterator[Touch]:
    """What an event does to paths; `frame` is what does it."""
    if event == "open":
        yield from _opened(*args)
    elif event in ("os.listdir", "os.scandir"):
        path = absolute("." if args[0] is None else args[0])
        if path:
            yield Touch(How.LIST, path)
    elif event == "sqlite3.connect":
        path = _database(args[0])
        if path:
            yield Touch(How.UPDATE, path)
    elif event in ("os.rename", "os.link", "os.symlink"):
        yield from _paired(event, *args)
    elif event in _ONE_PATH:
        folder = args[-1] if event != "os.truncate" and len(args) > 1 else None
        path = absolute(args[0], folder)
        if path:
            yield Touch(_indifferent(event, frame) or _ONE_PATH[event], path)


_ONE_PATH = {
    "os.mkdir": How.MAKE_FOLDER,
    "os.rmdir": How.REMOVE_FOLDER,
    "os.remove": How.REMOVE,
    "os.truncate": How.UPDATE,
    "os.chmod": How.MODE,
    "shutil.rmtree": How.REMOVE_TREE,
}


_INDIFFERENT = {
    ("os.mkdir", "makedirs"): ("exist_ok", How.ENSURE_FOLDER),
    ("os.mkdir", "mkdir"): ("exist_ok", How.ENSURE_FOLDER),
    ("os.mkdir", "mkdtemp"): ("file", How.NAME_FOLDER),
    ("os.remove", "unlink"): ("missing_ok", How.ENSURE_GONE),
}
_INDIFFERENT_FILES = tuple(
    function.__code__.co_filename
    for function in (os.makedirs, pathlib.Path.mkdir, tempfile.mkdtemp)
)


def _indifferent(event: str, frame: FrameType | None) -> How | None:
    """How a function does it that comes to the same whether or not something is there."""
    if frame is None or frame.f_code.co_filename not in _INDIFFERENT_FILES:
        return None
    option, how = _INDIFFERENT.get((event, frame.f_code.co_name), ("", None))
    return how if frame.f_locals.get(option) else None


def _opened(raw: Any, mode: str | None, flags: int) -> Iterator[Touch]:
    path = None if isinstance(raw, int) else absolute(raw)
    if path is None or flags & getattr(os, "O_DIRECTORY", 0):
        return  # a descriptor was seen when it was opened; O_TMPFILE includes O_DIRECTORY
    access = flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
    if mode is not None and access == os.O_RDONLY and not mode.startswith("r"):
        access = os.O_WRONLY  # extensions that raise the event may leave `flags` empty
        flags |= os.O_TRUNC if mode.startswith("w") else 0
    if access == os.O_RDONLY:
        yield Touch(How.READ, path)
    elif flags & os.O_EXCL:
        yield Touch(How.CREATE, path)
    elif flags & os.O_TRUNC:
        yield Touch(How.REPLACE, path)
    else:
        yield Touch(How.UPDATE, path)


def _paired(event: str, source: Any, target: Any, *folders: int) -> Iterator[Touch]:
    first = folders[0] if folders else None
    there = absolute(target, folders[-1] if folders else None)
    if there is None:
        return
    if event == "os.symlink":
        yield Touch(How.LINK, there, os.path.join(os.path.dirname(there), os.fsdecode(source)))
        return
    here = absolute(source, first)
    if here is None:
        return
    if event == "os.rename":
        yield Touch(How.MOVE, here, there)
    else:
        yield Touch(How.READ, here)
        yield Touch(How.REPLACE, there)


def absolute(raw: Any, folder: Any = None) -> str | None:
    """An absolute path without symbolic links resolved; None if it cannot be told."""
    if isinstance(raw, int):
        return _of_descriptor(raw)
    path = os.fsdecode(raw)
    if isinstance(folder, int) and folder >= 0 and not os.path.isabs(path):
        base = _of_descriptor(folder)
        return os.path.normpath(os.path.join(base, path)) if base else None
    return os.path.abspath(path)


def _of_descriptor(number: int) -> str | None:
    try:
        path = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return None
    return path if path.startswith("/") else None


def _database(raw: Any) -> str | None:
    name = os.fsdecode(raw) if isinstance(raw, str | bytes | os.PathLike) else ""
    if name.startswith("file:"):
        name = name[5:].split("?")[0]
        name = name[2:] if name.startswith("//") else name
    if not name or ":memory:" in name:
        return None
    return os.path.abspath(name)


def _is_network(event: str, args: tuple[Any, ...]) -> bool:
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        return args[0] is not None
    address = args[1] if len(args) > 1 else None
    return isinstance(address, tuple)  # AF_UNIX addresses are strings


def _asks_about_machine(command: Any) -> bool:
    words = _words(command)
    if not words:
        return False
    # `ctypes.util.find_library` asks the compiler and the linker where a library is.
    asks_linker = "-t" in words[1:2] or "-Wl,-t" in words
    return os.path.basename(words[0]) in _PROBES or asks_linker
