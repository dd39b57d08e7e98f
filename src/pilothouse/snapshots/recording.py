"""Records a cluster to a file: first a snapshot, then every change, while the recorder runs.

Each resource is watched from the resourceVersion of its list. A watch that ends is reopened from its last version.
After a 410 the resource is listed again and the differences are recorded as changes: states in between are lost, as for
any client. The file is readable up to the last second, however the recorder ends.
"""

import asyncio
import contextlib
import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

import pilothouse
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Expired, Forbidden, Gone, MethodNotAllowed, NotFound, UndecodableObject
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.api_resources import Resource
from pilothouse.machinery.json_bounds import exceeded
from pilothouse.machinery.times import format_time
from pilothouse.snapshots.file_format import (
    FORMAT,
    MAX_LINE,
    ChangeLine,
    End,
    Header,
    ResourceLine,
    SnapshotError,
    encode,
    gzip_compressor,
)
from pilothouse.snapshots.resource_order import DEFINITIONS, listed_resources
from pilothouse.snapshots.saving import SaveOptions, Saving, line_of

FLUSH_SECONDS = 1.0
_RETRY_SECONDS = (1.0, 30.0)
_WATCH_SECONDS = 300
_DISCOVERY_SECONDS = 2.0
"""Delay of the search for new resources after a change of CustomResourceDefinitions."""
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
_any = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class Full(Exception):
    """The size limit of the recording is reached."""


class RecordingWriter:
    """Writes to the final path: flushed data are readable even if the process is killed. Raises ``FileExistsError``,
    and ``OSError`` if the disk is full."""

    def __init__(self, path: Path, header: Header) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        self._path = path
        self._raw = os.fdopen(os.open(path, flags, 0o600), "wb")
        self._compressor = gzip_compressor()
        self.size = 0
        """Bytes of all lines, uncompressed."""
        self.changes = 0
        self._resource: ResourceLine | None = None
        self._write(encode(header))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._raw.write(self._compressor.flush())
        finally:
            self._raw.close()

    def discard(self) -> None:
        """Remove the incomplete file."""
        self._path.unlink(missing_ok=True)

    def resource(self, line: ResourceLine) -> None:
        """Write the line before the objects of a resource."""
        self._write(encode(line))

    def object(self, raw: bytes) -> None:
        """Write an object of the snapshot."""
        self._write(raw)

    def end(self, end: End) -> None:
        """Write the end of the snapshot."""
        self._write(encode(end))
        self.flush()

    def change(self, line: ResourceLine, change: ChangeLine) -> None:
        """Write a change after the snapshot."""
        if line != self._resource:
            self._resource = line
            self._write(encode(line))
        self._write(encode(change))
        self.changes += 1

    def flush(self) -> None:
        """Flush everything written so far."""
        self._raw.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        self._raw.flush()

    def _write(self, line: bytes) -> None:
        self.size += len(line) + 1
        self._raw.write(self._compressor.compress(line + b"\n"))


class RecordOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Contents and limits of a recording."""

    save: SaveOptions = SaveOptions()
    seconds: float = 0.0
    """The duration; 0: until cancelled."""
    max_bytes: int = 1 << 30
    """The limit of all lines, uncompressed."""


class Recorder:
    """One recording. ``run`` returns after ``seconds`` or when the file is full. On cancellation the file is
    completed."""

    def __init__(self, client: Client, env: Env, path: Path, options: RecordOptions) -> None:
        self._client = client
        self._env = env
        self._path = path
        self._options = options
        self._known_versions: dict[str, dict[str, str]] = {}
        """Versions by ``NAMESPACE/NAME``, for each resource."""
        self._uids: dict[tuple[str, str], str] = {}
        self._versions: dict[str, tuple[Resource, str]] = {}
        self._followed: set[str] = set()
        self._definitions_changed = asyncio.Event()
        self._random = env.stream("recorder")
        self.ready = asyncio.Event()
        """Set when the snapshot is written and all resources are watched."""
        self.full = False
        """Whether the recording ended because of its size."""
        self.relists = 0
        """The number of relists after a 410."""
        self.objects = 0
        self.changes = 0
        self.size = 0

    async def run(self) -> None:
        """Record. Raises what ``saving.save`` raises, ``FileExistsError``, and ``OSError`` if the disk is full."""
        version = (await self._client.server_version()).get("gitVersion") or ""
        started, options = self._env.monotonic(), self._options.save
        header = Header(
            format=FORMAT,
            time=format_time(self._env.now()),
            written_by=f"pilothouse v{pilothouse.__version__}",
            server_version=version,
            secret_values=options.secret_values,
            anonymized=options.anonymize is not None,
            recording=True,
        )
        with RecordingWriter(self._path, header) as self._writer:
            self._saving = Saving(self._client, self._path, self._writer, options)
            self._saving.on_saved, self._saving.on_listed = self._note_version, self._listed
            try:
                await self._saving.save_all()
            except BaseException:
                self._writer.discard()
                raise
            totals = self._saving.totals()
            self.objects = totals.objects
            self._writer.end(End(totals))
            self._began = started
            try:
                with contextlib.suppress(TimeoutError):
                    await self._follow_all()
            finally:
                self.changes, self.size = self._writer.changes, self._writer.size

    async def _follow_all(self) -> None:
        try:
            async with asyncio.timeout(self._options.seconds or None), TaskGroup("recorder") as group:
                for resource, listed in list(self._versions.values()):
                    self._start(group, resource, listed)
                group.start(self._flush(), name="flush")
                group.start(self._discover(group), name="discovery")
                self.ready.set()
        except* Full:
            self.full = True

    @property
    def skipped(self) -> tuple[Any, ...]:
        """Resources and objects that could not be read."""
        return tuple(self._saving.skipped)

    def _note_version(self, line: ResourceLine, meta: ObjectMeta) -> None:
        key = _key(meta)
        self._known_versions.setdefault(line.group_resource, {})[key] = meta.resource_version
        self._uids[line.group_resource, key] = meta.uid

    def _listed(self, resource: Resource, version: str) -> None:
        self._versions[resource.group_resource] = resource, version

    def _start(self, group: TaskGroup, resource: Resource, version: str) -> None:
        name = resource.group_resource
        if name not in self._followed and resource.supports("watch"):
            self._followed.add(name)
            group.start(self._follow(resource, version), name=name)

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self._writer.flush()

    async def _discover(self, group: TaskGroup) -> None:
        """Watch resources of CustomResourceDefinitions created during the recording."""
        while True:
            await self._definitions_changed.wait()
            await asyncio.sleep(_DISCOVERY_SECONDS)
            self._definitions_changed.clear()
            try:
                discovery = await self._client.discover()
            except (ApiError, ConnectionError, TimeoutError):
                self._definitions_changed.set()
                continue
            exclude = self._options.save.exclude
            for resource in listed_resources(discovery, self._saving.storage_versions):
                if not {resource.name, resource.group_resource} & {*exclude}:
                    self._start(group, resource, "")

    async def _follow(self, resource: Resource, version: str) -> None:
        wait = _RETRY_SECONDS[0]
        while True:
            try:
                if not version:
                    version = await self._list_again(resource)
                version = await self._watch(resource, version)
                wait = _RETRY_SECONDS[0]
            except (Gone, Expired):
                version = ""
                self.relists += 1
            except (Forbidden, NotFound, MethodNotAllowed):
                # A revoked permission or a deleted definition: both may come back.
                version = ""
                await asyncio.sleep(_RETRY_SECONDS[1])
            except (ApiError, ConnectionError, TimeoutError):
                await asyncio.sleep(wait * (0.5 + self._random.random()))
                wait = min(2 * wait, _RETRY_SECONDS[1])

    async def _watch(self, resource: Resource, version: str) -> str:
        """Watch once until the watch ends. Returns the version from which to continue."""
        watch = self._client.watch(
            resource.as_kind(),
            resource_version=version,
            timeout_seconds=_WATCH_SECONDS,
            keep_raw=True,
            on_undecodable=None,
        )
        try:
            async with watch as batches:
                async for batch in batches:
                    for event in batch:
                        version = event.object.metadata.resource_version or version
                        if event.type != "BOOKMARK":
                            self._record(resource, event.type, event.object, event.raw)
        except (Gone, Expired):
            raise
        except UndecodableObject:
            return ""
        except (ApiError, ConnectionError, TimeoutError):
            if version:
                await asyncio.sleep(_RETRY_SECONDS[0])
                return version
            raise
        return version

    async def _list_again(self, resource: Resource) -> str:
        """List again and record the differences. Returns the version of the list."""
        versions = self._known_versions.setdefault(resource.group_resource, {})
        deleted_keys, version = dict(versions), ""
        async for page in self._saving.pages(resource, latest=True):
            version = page.resource_version
            for raw in page.items:
                listed = msgspec.json.decode(raw, type=Object)
                key = _key(listed.metadata)
                old_version = deleted_keys.pop(key, None)
                uid = self._uids.get((resource.group_resource, key))
                if old_version is not None and uid != listed.metadata.uid:
                    self._record_gone(resource, key, uid or "", version)
                    old_version = None
                if old_version != listed.metadata.resource_version:
                    self._record(resource, "MODIFIED" if old_version else "ADDED", listed, bytes(raw))
        for key in deleted_keys:
            self._record_gone(resource, key, self._uids.get((resource.group_resource, key), ""), version)
        return version

    def _record_gone(self, resource: Resource, key: str, uid: str, version: str) -> None:
        """Record an unobserved deletion."""
        namespace, slash, name = key.rpartition("/")
        meta = {"name": name, **({"namespace": namespace} if slash else {}), "uid": uid, "resourceVersion": version}
        raw = _encode({"metadata": meta})
        self._record(resource, "DELETED", msgspec.json.decode(raw, type=Object), raw)

    def _record(self, resource: Resource, change: ChangeType, document: Object, raw: bytes) -> None:
        if len(raw) > MAX_LINE or exceeded(raw):
            return
        line, key = line_of(resource, ""), _key(document.metadata)
        obj = self._saving.changed(line, {"kind": line.kind, "apiVersion": line.api_version, **_any(raw)})
        anonymize = self._options.save.anonymize
        at = round(max(0.0, self._env.monotonic() - self._began), 3)
        written = ChangeLine(change=change, at=at, object=msgspec.Raw(_encode(obj)))
        self._writer.change(line if anonymize is None else anonymize.line(line), written)
        versions = self._known_versions.setdefault(resource.group_resource, {})
        if change == "DELETED":
            versions.pop(key, None)
            self._uids.pop((resource.group_resource, key), None)
        else:
            versions[key] = document.metadata.resource_version
            self._uids[resource.group_resource, key] = document.metadata.uid
        if (resource.group, resource.name) == DEFINITIONS:
            self._definitions_changed.set()
        if self._writer.size > self._options.max_bytes:
            raise Full


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


__all__ = ["Full", "RecordOptions", "Recorder", "SnapshotError"]
