"""A data directory with the cluster of a snapshot, and the metadata that ``up`` needs besides the store."""

import os
from pathlib import Path

import msgspec

from pilothouse.env.private_files import write_private
from pilothouse.snapshots.restoring import Restored, SavedNode
from pilothouse.storage.sqlite import create_store

FILE_NAME = "snapshot.json"


class Origin(msgspec.Struct, frozen=True, rename="camel"):
    """The snapshot from which a data directory was created."""

    nodes: tuple[SavedNode, ...] = ()
    """The nodes to simulate."""
    service_range: str = ""
    provisioners: tuple[str, ...] = ()


def create(directory: str | os.PathLike[str], restored: Restored) -> None:
    """Create the directory. Raises ``DataDirectoryError`` if it contains a cluster already, and ``OSError``."""
    create_store(directory, restored.records)
    origin = Origin(restored.nodes, restored.service_range, restored.provisioners)
    write_private(Path(directory) / FILE_NAME, msgspec.json.encode(origin))


def origin_of(directory: str | os.PathLike[str]) -> Origin | None:
    """The origin of a data directory; None if it was not created from a snapshot. Raises ``ValueError`` if the file is
    damaged."""
    path = Path(directory) / FILE_NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=Origin)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} can't be read: {error}") from None
