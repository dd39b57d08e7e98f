"""The simulated nodes of a data directory: ``up`` continues with as many, unless ``--nodes`` changes the number.

Without this record a start with the default number would leave Nodes that nobody simulates, and their pods would be
evicted; and one with fewer nodes could not tell its own Nodes from those of ``pilothouse nodes`` or of a snapshot.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.core import NODES
from pilothouse.cli.program import UserError
from pilothouse.client.errors import NotFound
from pilothouse.env.private_files import write_private
from pilothouse.machinery.flags import Parsed

if TYPE_CHECKING:
    from pilothouse.client import Client

FILE_NAME = "nodes.json"


class StoredNodes(msgspec.Struct, frozen=True):
    """The content of the file."""

    prefix: str
    count: int
    surplus: tuple[str, ...] = ()
    """Nodes of an earlier start that this one no longer simulates, and whose Nodes are yet to be deleted."""

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that are simulated."""
        return tuple(f"{self.prefix}{index}" for index in range(self.count))

    @property
    def flags(self) -> dict[str, Any]:
        """The flags of ``up`` for these nodes."""
        return {"nodes": self.count, "node-prefix": self.prefix}


def is_stored(parsed: Parsed) -> bool:
    """Whether there is a record. With an etcd the directory has credentials only, and other servers may share it."""
    return bool(parsed["data-dir"]) and not parsed["etcd-servers"]


def stored_nodes(directory: str) -> StoredNodes | None:
    """The nodes that are stored there, None if it is a new directory. Raises ``UserError``."""
    path = Path(directory) / FILE_NAME
    if not os.path.exists(path):
        return None  # an unreadable directory is reported when the store is opened
    try:
        return msgspec.json.decode(path.read_bytes(), type=StoredNodes)
    except (OSError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path} can't be read: {reason}; without it, nodes that are not simulated stay") from error


def write_nodes(parsed: Parsed) -> Sequence[str]:
    """Store the nodes of this start. Returns those whose Nodes are to be deleted. Raises ``UserError``."""
    directory = parsed["data-dir"]
    before = stored_nodes(directory) or StoredNodes("", 0)
    nodes = StoredNodes(parsed["node-prefix"], parsed["nodes"])
    kept = set(nodes.names)
    surplus = tuple(name for name in dict.fromkeys((*before.surplus, *before.names)) if name not in kept)
    _write(directory, msgspec.structs.replace(nodes, surplus=surplus))
    return surplus


async def delete_nodes(client: "Client", parsed: Parsed, surplus: Sequence[str]) -> None:
    """Delete the Nodes, as a cloud provider's controller deletes those of deleted machines."""
    for name in surplus:
        with contextlib.suppress(NotFound):
            await client.delete(NODES, name)
    _write(parsed["data-dir"], StoredNodes(parsed["node-prefix"], parsed["nodes"]))


def _write(directory: str, nodes: StoredNodes) -> None:
    path = Path(directory) / FILE_NAME
    try:
        write_private(path, msgspec.json.encode(nodes))
    except OSError as error:
        raise UserError(f"unable to write {path}: {error.strerror}") from error
