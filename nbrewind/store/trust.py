"""Whose records are believed: a signing key per user, and a list of trusted keys.

Both live outside every store, in `$NBREWIND_CONFIG_DIR` or the user's configuration
directory: whoever can write a store can then still not make its records trusted.

```
signing.key      the user's Ed25519 key, mode 0600, made on first use
trusted_keys     a key in hex per line, then a comment; lines with # are comments
```
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import stat
import uuid
from collections.abc import Iterable
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nbrewind.errors import TrustError
from nbrewind.store.abc import Store

_log = logging.getLogger(__name__)

_KEY_PREFIX = "nbrewind-ed25519-1 "
_DOMAIN = b"nbrewind ref format 1\0"
"""Precedes what is signed, so that a signature means nothing anywhere else."""


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """One key found in a store, or trusted."""

    count: int
    """Refs of the store signed with it."""
    trusted: bool
    own: bool
    """It is this user's own key."""
    comment: str = ""
    """From the trust list."""


def config_directory() -> Path:
    """Where this user's keys are; it may not exist yet."""
    if given := os.environ.get("NBREWIND_CONFIG_DIR"):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join("~", ".config")
    return Path(os.path.expanduser(base)) / "nbrewind"


def own_key() -> bytes:
    """This user's public key (32 bytes); the key is made on first use.

    Raises:
        TrustError: there is none and it cannot be made, or it is damaged.
    """
    return _public(_signer())


def sign(body: bytes) -> tuple[bytes, bytes]:
    """Sign a ref's body; returns public key and signature.

    Raises:
        TrustError: as `own_key`.
    """
    signer = _signer()
    return _public(signer), signer.sign(_DOMAIN + body)


def verify(body: bytes, key: bytes, signature: bytes) -> bool:
    """Whether `signature` over a ref's body was made with `key`."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _DOMAIN + body)
    except (InvalidSignature, ValueError):
        return False
    return True


def trusted_keys() -> dict[str, str]:
    """Keys trusted on this machine in hex, each with its comment; the own key is among them."""
    found = dict(_listed())
    own = _existing_key()
    if own is not None:
        found.setdefault(_public(own).hex(), "own key")
    return found


def trust_key(key: str, comment: str = "") -> None:
    """Believe records signed with `key` (hex) from now on.

    Raises:
        TrustError: it is not a key, or the list cannot be written.
    """
    key = _checked(key)
    keys = {**_listed(), key: " ".join(comment.split())}
    _write_list(keys)


def untrust_key(key: str) -> bool:
    """No longer believe records signed with `key` (hex); False if it was not listed.

    Raises:
        TrustError: it is not a key, it is the user's own, or the list cannot be written.
    """
    key = _checked(key)
    own = _existing_key()
    if own is not None and own.public_key().public_bytes_raw().hex() == key:
        raise TrustError(
            f"{key} is your own key: remove {_key_path()} to have another one made; "
            "what it signed is then untrusted"
        )
    keys = dict(_listed())
    if keys.pop(key, None) is None:
        return False
    _write_list(keys)
    return True


def keys_of(store: Store) -> dict[str, KeyUse]:
    """The keys that signed a store's refs, by hex, most used first."""
    counts: dict[str, int] = {}
    for ref in store.refs():
        counts[ref.key.hex()] = counts.get(ref.key.hex(), 0) + 1
    trusted = trusted_keys()
    own = _existing_key()
    own_hex = own.public_key().public_bytes_raw().hex() if own else ""
    return {
        key: KeyUse(
            count=count, trusted=key in trusted, own=key == own_hex, comment=trusted.get(key, "")
        )
        for key, count in sorted(counts.items(), key=lambda item: -item[1])
    }


def _key_path() -> Path:
    return config_directory() / "signing.key"


def _list_path() -> Path:
    return config_directory() / "trusted_keys"


def _signer() -> Ed25519PrivateKey:
    found = _existing_key()
    if found is not None:
        return found
    path = _key_path()
    content = f"{_KEY_PREFIX}{os.urandom(32).hex()}\n".encode()
    try:
        _make_directory(path.parent)
        _publish(path, content, replace=False)
    except OSError as exc:
        raise TrustError(
            f"cannot make a signing key in {path.parent} ({exc.strerror}): set "
            "NBREWIND_CONFIG_DIR to a directory that you can write"
        ) from exc
    made = _existing_key()
    if made is None:
        raise TrustError(f"{path} disappeared while it was made")
    return made


def _existing_key() -> Ed25519PrivateKey | None:
    path = _key_path()
    try:
        info = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise TrustError(f"cannot read your signing key {path}: {exc.strerror}") from exc
    return _load_key(str(path), info.st_mtime_ns, info.st_ino)


@functools.lru_cache(maxsize=4)
def _public(key: Ed25519PrivateKey) -> bytes:
    """The public half; asked for at every look-up of records."""
    return key.public_key().public_bytes_raw()


@functools.lru_cache(maxsize=4)
def _load_key(path: str, changed: int, inode: int) -> Ed25519PrivateKey:
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & 0o077:
            _log.warning("%s could be read by others (mode %o); it is 600 now", path, mode)
            os.chmod(path, 0o600)
        text = Path(path).read_text(encoding="ascii")
        if not text.startswith(_KEY_PREFIX):
            raise ValueError("not a key")
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text[len(_KEY_PREFIX) :]))
    except (OSError, ValueError) as exc:
        raise TrustError(
            f"your signing key {path} cannot be used ({exc}): restore it, or remove it to have "
            "another one made; what it signed is then untrusted"
        ) from exc


def _listed() -> dict[str, str]:
    path = _list_path()
    try:
        info = os.stat(path)
        return _parse_list(str(path), info.st_mtime_ns, info.st_ino, info.st_size)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as exc:
        raise TrustError(f"cannot read {path}: {exc}") from exc


@functools.lru_cache(maxsize=4)
def _parse_list(path: str, changed: int, inode: int, size: int) -> dict[str, str]:
    keys: dict[str, str] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        fields = line.split(None, 1)
        if not fields or fields[0].startswith("#"):
            continue
        try:
            key = _checked(fields[0])
        except TrustError:
            _log.warning("%s, line %d: not a key in hex; ignored", path, number)
            continue
        keys[key] = fields[1].strip() if len(fields) > 1 else ""
    return keys


def _checked(key: str) -> str:
    try:
        raw = bytes.fromhex(key)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise TrustError(f"{key!r} is not a key: 64 hex digits are needed")
    return raw.hex()


def _write_list(keys: dict[str, str]) -> None:
    path = _list_path()
    lines = ["# Keys whose records NBRewind believes: `nbrewind trust add|list|remove`."]
    lines += [f"{key} {comment}".rstrip() for key, comment in keys.items()]
    try:
        _make_directory(path.parent)
        _publish(path, "".join(f"{line}\n" for line in lines).encode(), replace=True)
    except OSError as exc:
        raise TrustError(f"cannot write {path}: {exc.strerror}") from exc


def _make_directory(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _publish(path: Path, content: bytes, *, replace: bool) -> None:
    """Give `path` the whole content at once; without `replace` the first one there wins."""
    temporary = path.with_name(f"{path.name}.tmp-{uuid.uuid4().hex}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            with contextlib.suppress(FileExistsError):
                _claim(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _claim(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # No hard links here. The window in which two first runs of one user race is a rename.
        if not path.exists():
            os.rename(temporary, path)


def trusts(keys: Iterable[bytes]) -> frozenset[bytes]:
    """Those of `keys` that are trusted here; none if that cannot be found out."""
    try:
        trusted = trusted_keys()
    except TrustError as exc:
        _log.warning("no record is trusted: %s", exc)
        return frozenset()
    return frozenset(key for key in keys if key.hex() in trusted)
