"""Writes snapshot files line by line for tests."""

import gzip
import json
from pathlib import Path
from typing import Any

Object = dict[str, Any]
HEADER: Object = {"pilothouseSnapshot": 1, "time": "2026-01-01T00:00:00Z", "serverVersion": "v1.36.2"}
CONFIG_MAPS: Object = {"resource": "configmaps", "version": "v1", "kind": "ConfigMap", "namespaced": True}


def end(objects: int) -> Object:
    """The last line."""
    return {"end": {"objects": objects, "oldest": 1, "newest": 1}}


def config_map(name: str, **metadata: Any) -> Object:
    """A ConfigMap; its uid and resourceVersion follow from its name."""
    number = sum(ord(entry) << 8 * place for place, entry in enumerate(name[:5]))
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(number)}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {**meta, **metadata}, "data": {"a": "b"}}


def lines(*documents: Object | bytes) -> bytes:
    """The lines of a file."""
    return b"".join(
        (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n" for document in documents
    )


def write(path: Path, *documents: Object | bytes) -> Path:
    """A file of these lines."""
    path.write_bytes(gzip.compress(lines(*documents)))
    return path


def snapshot_of(path: Path, *objects: Object | bytes, resource: Object = CONFIG_MAPS) -> Path:
    """A whole snapshot of objects of one resource."""
    return write(path, HEADER, resource, *objects, end(len(objects)))
