"""Who is writing: the name of this process, and its own corner in a store's `tmp/`."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import socket
import time
import uuid

from nbrewind.store.durable import writing
from nbrewind.store.sharing import pass_on

_log = logging.getLogger(__name__)

_NAME = re.compile(
    r"(?P<host>[^~]+)~(?P<boot>[^~]*)~(?P<space>[^~]*)~(?P<pid>\d+)~(?P<uuid>[0-9a-f]+)"
)

_FOREIGN_BOOT_SECONDS = 24 * 3600


def host_name() -> str:
    """This machine's name, safe in file names."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "localhost"


def writer_name() -> str:
    """`host:boot id:pid:uuid`, as refs carry it."""
    return f"{host_name()}:{_boot()}:{os.getpid()}:{uuid.uuid4().hex}"


def observer_name() -> str:
    """Whose monotonic clock this process has: `host:boot id`."""
    return f"{host_name()}:{_boot()}"


def make_session(tmp: str) -> str:
    """Make this process a directory of its own in `tmp` and return its path.

    Raises:
        StoreNotWritable: it cannot be made.
    """
    fields = (host_name(), _boot(), _pid_space(), str(os.getpid()), uuid.uuid4().hex[:16])
    path = os.path.join(tmp, "~".join(fields))
    with writing(path):
        os.mkdir(path)
        pass_on(path)
    return path


def clean_dead_sessions(tmp: str) -> None:
    """Remove what processes of this machine left behind that are gone; others are not judged."""
    with contextlib.suppress(OSError):
        for name in os.listdir(tmp):
            if is_dead(tmp, name):
                shutil.rmtree(os.path.join(tmp, name), ignore_errors=True)
                _log.info("removed what an interrupted process left in %s", name)


def is_dead(tmp: str, name: str) -> bool:
    """Whether a session is known to be over: its process, of this machine, is gone."""
    match = _NAME.fullmatch(name)
    if match is None or match["host"] != host_name() or not match["boot"]:
        return False
    if match["boot"] != _boot():
        # Another boot of this machine, unless two machines go by one name: wait a day.
        try:
            changed = os.stat(os.path.join(tmp, name)).st_mtime
        except FileNotFoundError:
            return True
        return time.time() - changed > _FOREIGN_BOOT_SECONDS
    return _is_near(match) and _is_running(match) is False


def is_alive(name: str) -> bool:
    """Whether a session is known to be alive: its process can be seen from here."""
    match = _NAME.fullmatch(name)
    if match is None or match["host"] != host_name() or match["boot"] != _boot():
        return False
    return bool(match["boot"]) and _is_near(match) and _is_running(match) is True


def _is_near(match: re.Match[str]) -> bool:
    # Containers share a host's name, not its process numbers: there a live pid looks gone.
    return match["space"] == _pid_space()


def _is_running(match: re.Match[str]) -> bool | None:
    try:
        os.kill(int(match["pid"]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return None
    return True


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _pid_space() -> str:
    try:
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ""
