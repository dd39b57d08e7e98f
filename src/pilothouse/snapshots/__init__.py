"""Snapshots of clusters: saved from any API server, restored into an embedded one.

``saving`` reads a cluster through the client and ``writing`` writes the file; ``file_format`` defines its lines.
``reading`` parses a file as untrusted input. ``restoring`` converts it to the records of a store, with the saved uids,
resourceVersions and status, so that controllers continue where those of the cluster stopped. ``etcd_snapshot`` does the
same with a file of ``etcdctl snapshot save``, and ``opening`` accepts both. ``secret_values`` removes values of
Secrets.
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
