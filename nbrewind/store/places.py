"""Places of stores, as people write them: a directory, a bucket, or several, fastest first."""

from __future__ import annotations

import os
import re

BUCKET_SCHEME = "s3://"

# A directory's own name may have commas in it; what follows a separator says what it is.
_SEPARATOR = re.compile(r",(?=/|~|[a-z][a-z0-9]*://)")


def is_bucket(place: str) -> bool:
    """Whether a place is not in the file system."""
    return place.startswith(BUCKET_SCHEME)


def tiers_of(place: str | os.PathLike[str]) -> tuple[str, ...]:
    """The single places of a chain, fastest first.

    They are separated by commas, each of which is followed by `/`, `~` or a scheme such as
    `s3://`: all but the first must be absolute.
    """
    return tuple(part.strip() for part in _SEPARATOR.split(os.fspath(place)) if part.strip())


def absolute(place: str | os.PathLike[str], base: str | os.PathLike[str] = "") -> str:
    """A place, or a chain of them, that means the same from everywhere.

    Args:
        place: As written.
        base: The directory that a relative one is relative to; the current one if empty.
    """
    return ",".join(
        part
        if is_bucket(part)
        else os.path.abspath(os.path.join(base or os.getcwd(), os.path.expanduser(part)))
        for part in tiers_of(place)
    )


def is_missing_directory(place: str) -> bool:
    """Whether a place, or every place of a chain, is a directory that does not exist."""
    return not any(is_bucket(part) or os.path.exists(part) for part in tiers_of(place))
