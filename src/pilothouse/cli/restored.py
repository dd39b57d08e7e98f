"""The cluster with which ``up`` starts: from a snapshot, or from a data directory that was restored from one."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.cli import stored_nodes
from pilothouse.cli.etcd_flags import NEEDS_PLUGINS, missing_extra
from pilothouse.cli.program import UserError
from pilothouse.cli.terminal import escaped
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import Parsed

if TYPE_CHECKING:
    from pilothouse.snapshots.data_directory import Origin
    from pilothouse.snapshots.restoring import Restored
    from pilothouse.storage import Record

with lazy_imports():
    from pilothouse.apiserver.encryption_config import opened
    from pilothouse.apiserver.encryption_config import types as encryption_config
    from pilothouse.cli import snapshot as snapshot_command
    from pilothouse.snapshots import data_directory, etcd_snapshot, file_format, opening, reading

SOURCES = ("snapshot", "etcd-snapshot")
"""Flags that name a file with a cluster."""
NO_RECORDS: "tuple[Record, ...]" = ()


class RestoredCluster(msgspec.Struct, frozen=True):
    """Settings from the snapshot or the data directory."""

    records: "tuple[Record, ...]" = ()
    """The initial records of the store; none if they are in the data directory."""
    nodes: tuple[str, ...] = ()
    """The ready nodes, which are simulated."""
    defaults: Mapping[str, Any] = {}
    """Values of flags that were not given."""


def restored_cluster(parsed: Parsed) -> tuple[Parsed, RestoredCluster]:
    """The flags, with defaults for a restored cluster, and its content. Raises ``UserError``."""
    directory = parsed["data-dir"]
    sources = [name for name in SOURCES if parsed[name]]
    if len(sources) == 2:
        raise UserError("--snapshot and --etcd-snapshot can't be used together", code=2)
    if sources:
        name, path = sources[0], parsed[sources[0]]
        if directory:
            raise UserError(
                f"--{name} and --data-dir can't be used together: make the directory with "
                f'"pilothouse snapshot restore {path} --data-dir {directory}"',
                code=2,
            )
        if parsed["etcd-servers"]:
            raise UserError(f"--{name} and --etcd-servers can't be used together", code=2)
        restored = _read(parsed, name)
        snapshot_command.print_skipped(restored.skipped, "is not in it")
        origin: Origin | None = data_directory.Origin(restored.nodes, restored.service_range, restored.provisioners)
        records = tuple(restored.records)
    else:
        origin, records = _origin(directory), NO_RECORDS
    stored = stored_nodes.stored_nodes(directory) if stored_nodes.is_stored(parsed) else None
    if origin is None and stored is None:
        return parsed, RestoredCluster()
    defaults: dict[str, object] = {}
    nodes: tuple[str, ...] = ()
    if origin is not None:
        defaults = {"nodes": 0, "no-storage": True}
        if origin.service_range:
            defaults["service-cluster-ip-range"] = origin.service_range
        nodes = tuple(node.name for node in origin.nodes if node.ready)
    if stored is not None:
        defaults |= stored.flags
    defaults = {name: value for name, value in defaults.items() if name not in parsed.given}
    restored_parsed = msgspec.structs.replace(parsed, values={**parsed.values, **defaults})
    return restored_parsed, RestoredCluster(records, nodes, defaults)


def _read(parsed: Parsed, name: str) -> "Restored":
    path = parsed[name]
    try:
        if name == "etcd-snapshot":
            return _read_etcd_snapshot(path, parsed)
        return opening.restored(path)
    except file_format.SnapshotError as error:
        raise UserError(escaped(f"{error}{_hint(name, path)}")) from error
    except OSError as error:
        raise UserError(f"--{name} {path}: {error.strerror}") from error


def _hint(name: str, path: str) -> str:
    """The other flag, if it is the one for a file that can't be read. ``--snapshot`` reads snapshots of etcd, too, but
    only with the usual prefix."""
    if name == "snapshot":
        of_etcd = etcd_snapshot.is_etcd_snapshot(path)
        return f"; --etcd-snapshot {path} takes --etcd-prefix and --encryption-provider-config" if of_etcd else ""
    try:
        reading.SnapshotFile(path)
    except file_format.SnapshotError:
        return ""
    return f"; it is a snapshot of pilothouse: --snapshot {path}"


def _read_etcd_snapshot(path: str, parsed: Parsed) -> "Restored":
    prefix, config = parsed["etcd-prefix"], parsed["encryption-provider-config"]
    if not config:
        return etcd_snapshot.restored_from_etcd(path, prefix=prefix)
    try:
        encryption = opened.OpenedEncryption(Env(), config, reload=False, server_id="").at_rest
    except encryption_config.EncryptionConfigError as error:
        raise UserError(f"--encryption-provider-config: {error}") from error
    except ModuleNotFoundError as error:
        raise missing_extra(error, NEEDS_PLUGINS) from None
    try:
        return etcd_snapshot.restored_from_etcd(path, prefix=prefix, encryption=encryption)
    finally:
        encryption.providers.close()


def _origin(directory: str) -> "Origin | None":
    # The module is only loaded for snapshots. An unreadable directory is reported when it is opened.
    if not directory or not os.path.exists(Path(directory) / "snapshot.json"):
        return None
    try:
        return data_directory.origin_of(directory)
    except ValueError as error:
        raise UserError(str(error)) from error
