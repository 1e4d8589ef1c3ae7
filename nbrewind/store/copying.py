"""Copying objects to packs of their own, because the packs they are in are to go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nbrewind.model.blobs import ObjectId
from nbrewind.store import codec, durable
from nbrewind.store.catalog import Location, pack_place
from nbrewind.store.config import PACK_BYTES
from nbrewind.store.leaves import flat, object_id
from nbrewind.store.pack_writer import PackWriter
from nbrewind.store.packs import KINDS

if TYPE_CHECKING:
    from nbrewind.store.local import LocalStore

SALT_BYTES = 16
"""Of an object that nothing refers to. Packs are named by their objects: without it, a copy
of all of a condemned pack would get the name that is condemned."""


def copy_objects(
    store: LocalStore,
    session: str,
    places: Iterable[Location],
    named: Callable[[list[ObjectId]], None],
) -> list[ObjectId]:
    """Copy objects, verified, to new packs, durably; returns the packs.

    Args:
        store: An open store.
        session: This process's temporary directory.
        places: A copy of each object.
        named: Called with the names of packs before they become visible.

    Raises:
        ObjectDamaged, ObjectMissing: one of them cannot be read; nothing was added.
        OSError: the packs cannot be written; nothing that was added is relied on.
    """
    writers: list[PackWriter] = []
    done: list[tuple[str, ObjectId, bytes]] = []
    try:
        for place in places:
            if not writers or writers[-1].size >= PACK_BYTES:
                path = os.path.join(session, f"copy-{os.urandom(8).hex()}.pack")
                writers.append(PackWriter(path))
                salt = os.urandom(SALT_BYTES)
                chunk = KINDS.index("chunk") + 1
                writers[-1].add(chunk, codec.RAW, salt, len(salt), object_id(salt))
            content = flat(store.read_copy(place))
            entry = place.entry
            how, payload = codec.encode_as(entry.codec, content)
            writers[-1].add(entry.kind, how, payload, content.nbytes, entry.oid)
            writers[-1].settle()
        for writer in writers:
            done.append((writer.path, *writer.finish()))
    except BaseException:
        for writer in writers:
            writer.close()
            durable.discard(writer.path)
        raise
    named([name for _, name, _ in done])
    folders: set[str] = set()
    for path, name, _ in done:
        folder, file = pack_place(name)
        folder = os.path.join(store.location, "packs", folder)
        durable.make_directory(folder)
        durable.move(path, os.path.join(folder, file))
        folders.add(folder)
    for folder in sorted(folders):
        durable.sync_directory(folder)
    for _, name, index in done:
        store.pack_written(name, index)
    return [name for _, name, _ in done]
