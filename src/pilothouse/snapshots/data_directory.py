"""A data directory with the cluster of a snapshot, and what ``up`` has to know about it besides the store."""

import os
from pathlib import Path

import msgspec

from pilothouse.env.private_files import write_private
from pilothouse.snapshots.restoring import Restored, SavedNode
from pilothouse.storage.sqlite import create_store

FILE_NAME = "snapshot.json"


class Origin(msgspec.Struct, frozen=True, rename="camel"):
    """Where the cluster in a data directory comes from."""

    nodes: tuple[SavedNode, ...] = ()
    """To be simulated as they were saved."""
    service_range: str = ""
    provisioners: tuple[str, ...] = ()


def create(directory: str | os.PathLike[str], found: Restored) -> None:
    """Make the directory. Raises ``DataDirectoryError`` when there is a cluster in it already, and ``OSError``."""
    create_store(directory, found.records)
    origin = Origin(found.nodes, found.service_range, found.provisioners)
    write_private(Path(directory) / FILE_NAME, msgspec.json.encode(origin))


def origin_of(directory: str | os.PathLike[str]) -> Origin | None:
    """What is known of the snapshot that the directory was made of; None if it was made of none.

    Raises ``ValueError`` when the file is damaged.
    """
    path = Path(directory) / FILE_NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=Origin)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} can't be read: {error}") from None
