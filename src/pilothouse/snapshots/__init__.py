"""Snapshots of clusters: saved from any API server, restored into an embedded one.

``saving`` reads a cluster through the client and ``writing`` makes a file of it; ``file_format`` says what is in it,
line by line. ``reading`` reads it as untrusted input. ``restoring`` makes the records of a store of it, with uids,
resourceVersions and status as they were saved, so that controllers go on where those of the cluster were.
``etcd_snapshot`` does the same for a file of ``etcdctl snapshot save``, and ``opening`` takes either. ``secret_values``
leaves out what is not to leave a cluster.
"""

from pilothouse.env.lazy import lazy_exports

with lazy_exports():
    from pilothouse.snapshots.etcd_snapshot import restored_from_etcd
    from pilothouse.snapshots.file_format import FORMAT, Header, ResourceLine, SnapshotError
    from pilothouse.snapshots.opening import restored
    from pilothouse.snapshots.reading import Entry, SnapshotFile, load
    from pilothouse.snapshots.restoring import Restored, SavedNode
    from pilothouse.snapshots.saving import Saved, SaveOptions, save

__all__ = [
    "FORMAT",
    "Entry",
    "Header",
    "ResourceLine",
    "Restored",
    "SaveOptions",
    "Saved",
    "SavedNode",
    "SnapshotError",
    "SnapshotFile",
    "load",
    "restored",
    "restored_from_etcd",
    "save",
]
