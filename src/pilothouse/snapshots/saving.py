"""Saves a cluster: lists every resource page by page, and writes each object as it arrives.

All lists are read at the same resourceVersion where the API server supports that (``resourceVersionMatch=Exact``,
kube-apiserver 1.19 and later, until etcd has compacted that revision); ``Totals`` has the resourceVersions. Only one
page is in memory.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

import pilothouse
from pilothouse.api.meta import Object, ObjectMeta, Status
from pilothouse.client import Client
from pilothouse.client.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
    Timeout,
    UndecodableObject,
)
from pilothouse.client.requests import collection_path, with_query
from pilothouse.env import Env
from pilothouse.machinery.api_resources import Resource
from pilothouse.machinery.json_bounds import exceeded
from pilothouse.machinery.times import format_time
from pilothouse.snapshots.anonymizing import Anonymizer
from pilothouse.snapshots.file_format import (
    FORMAT,
    MAX_BYTES,
    MAX_LINE,
    MAX_OBJECTS,
    Header,
    ResourceLine,
    Skipped,
    SnapshotError,
    Totals,
)
from pilothouse.snapshots.resource_order import DEFINITIONS, listed_resources
from pilothouse.snapshots.secret_values import without_values
from pilothouse.snapshots.writing import SnapshotWriter

PAGE = 500
_EMPTY_PAGES = 20
"""Consecutive pages without objects after which a list is aborted."""
_EXPIRED_TOKENS = 10
"""Expired continue tokens after which a list is aborted."""
_NOT_AT_THAT_VERSION = (Gone, BadRequest, Invalid, Timeout)
"""Responses to a list at an unavailable resourceVersion: compacted, unknown, or of another etcd."""
_UNREADABLE = (
    Forbidden,
    Gone,
    NotFound,
    MethodNotAllowed,
    InternalError,
    ServiceUnavailable,
    Timeout,
    BadRequest,
    Invalid,
)


class SaveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is saved."""

    secret_values: bool = False
    """Include the values of Secrets."""
    anonymize: Anonymizer | None = None
    """Applied to each object last."""
    exclude: tuple[str, ...] = ()
    """Resources to leave out, such as ``events`` or ``widgets.example.com``."""
    page_size: int = PAGE
    max_objects: int = MAX_OBJECTS
    max_bytes: int = MAX_BYTES


DEFAULTS = SaveOptions()


class Writer(Protocol):
    """Writes the lines of a file."""

    @property
    def size(self) -> int:
        """Bytes of all lines, uncompressed."""

    def resource(self, line: ResourceLine) -> None:
        """Write the line before the objects of a resource."""

    def object(self, raw: bytes) -> None:
        """Write an object of the resource."""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``save``."""

    totals: Totals
    resources: int
    """The number of resources with objects."""
    size: int
    """Bytes of the file."""


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    resource_version: str
    items: list[msgspec.Raw]
    next: str


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    items: list[msgspec.Raw] | None = None


_list = msgspec.json.Decoder(_List).decode
_object = msgspec.json.Decoder(Object).decode
_any = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


async def save(client: Client, env: Env, path: Path, options: SaveOptions = DEFAULTS) -> Saved:
    """Write a snapshot of everything that may be listed.

    Needs ``list`` on all resources; forbidden ones are left out and reported in ``totals.skipped``. Raises
    ``ApiError``, ``ConnectionError`` or ``TimeoutError`` if the server stops responding, ``SnapshotError`` if the
    cluster exceeds the limits of a snapshot, and ``OSError`` if the file can't be written. No file is left then.
    """
    version = (await client.server_version()).get("gitVersion") or ""
    header = Header(
        format=FORMAT,
        time=format_time(env.now()),
        written_by=f"pilothouse v{pilothouse.__version__}",
        server_version=version,
        secret_values=options.secret_values,
        anonymized=options.anonymize is not None,
    )
    with SnapshotWriter(path, header) as writer:
        saving = Saving(client, path, writer, options)
        await saving.save_all()
        totals = saving.totals()
        return Saved(totals=totals, resources=saving.resources, size=writer.finish(totals))


class Saving:
    """One snapshot in progress."""

    def __init__(self, client: Client, path: Path, writer: Writer, options: SaveOptions) -> None:
        self._client = client
        self._path = path
        self._writer = writer
        self._options = options
        self._moment = ""
        """The resourceVersion of the first list."""
        self._uids: set[str] = set()
        """All uids so far: an object served by two resources is saved once."""
        self._versions: list[int] = []
        self._objects = 0
        self.on_saved: Callable[[ResourceLine, ObjectMeta], None] | None = None
        self.on_listed: Callable[[Resource, str], None] | None = None
        """Called with the version of each page."""
        self.resources = 0
        self.skipped: list[Skipped] = []
        self.storage_versions: dict[str, str] = {}
        """By the names of definitions."""

    def totals(self) -> Totals:
        """What was saved so far."""
        return Totals(
            objects=self._objects,
            oldest=min(self._versions, default=0),
            newest=max(self._versions, default=0),
            skipped=tuple(self.skipped),
        )

    async def save_all(self) -> None:
        """Save the objects of all resources, definitions first."""
        discovery = await self._client.discover()
        for name, reason in sorted(discovery.failures.items()):
            self.skipped.append(Skipped(name, f"discovery failed: {reason}"))
        definitions = [listed for listed in listed_resources(discovery) if (listed.group, listed.name) == DEFINITIONS]
        for resource in definitions:
            await self.save(resource)
        for resource in listed_resources(discovery, self.storage_versions):
            if (resource.group, resource.name) != DEFINITIONS:
                await self.save(resource)

    async def save(self, resource: Resource) -> None:
        """Save the objects of one resource, or report why they can't be read."""
        name = resource.group_resource
        if name in self._options.exclude or resource.name in self._options.exclude:
            return
        begun = False
        try:
            async for page in self.pages(resource):
                self._note_version(page.resource_version)
                if self.on_listed is not None:
                    self.on_listed(resource, page.resource_version)
                line = line_of(resource, page.resource_version)
                for raw in page.items:
                    text = self._saved(line, raw)
                    if text is None:
                        continue
                    if not begun:
                        anonymize = self._options.anonymize
                        self._writer.resource(line if anonymize is None else anonymize.line(line))
                        self.resources += 1
                        begun = True
                    self._writer.object(text)
                    self._objects += 1
                    self._check_bounds(name)
        except _UNREADABLE as error:
            part = "only part of it was saved: " if begun else ""
            self.skipped.append(Skipped(name, f"{part}{error}"[:500]))
        except UndecodableObject as error:
            self.skipped.append(Skipped(name, f"the list can't be read: {error.error}"[:500]))

    def _note_version(self, version: str) -> None:
        if version.isascii() and version.isdigit():
            self._versions.append(int(version))
            self._moment = self._moment or version

    def _check_bounds(self, name: str) -> None:
        options = self._options
        if self._objects > options.max_objects:
            reason = f"there are more than {options.max_objects:,} objects, with those of {name}"
        elif self._writer.size > options.max_bytes:
            reason = f"it would be larger than {options.max_bytes:,} bytes, with the objects of {name}"
        else:
            return
        raise SnapshotError(self._path, f"{reason}: leave some out with --exclude")

    async def pages(self, resource: Resource, *, latest: bool = False) -> AsyncIterator[Page]:
        """Pages of a list, at the snapshot's resourceVersion if available, or the ``latest``; without duplicate
        objects."""
        token, exact = "", "" if latest else self._moment
        empty, expired, counts = 0, 0, {""}
        while True:
            try:
                page = await self._page(resource, token, exact)
            except _NOT_AT_THAT_VERSION as error:
                if token and isinstance(error, Gone):
                    # kube-apiserver sends a token to continue after that name at the latest version. Without one
                    # everything
                    # is listed again; saved objects are recognized by their uid.
                    token, exact = _next_token(error), ""
                    expired += 1
                    if expired > _EXPIRED_TOKENS:
                        raise
                    counts = counts if token else {""}
                    continue
                if not exact or token:
                    raise
                exact = ""
                continue
            yield page
            token = page.next
            empty = 0 if page.items else empty + 1
            if not token:
                return
            if token in counts or empty > _EMPTY_PAGES:
                raise SnapshotError(self._path, f"the list of {resource.group_resource} has no end: leave it out")
            counts.add(token)

    async def _page(self, resource: Resource, token: str, exact: str) -> Page:
        kind = resource.as_kind()
        target = with_query(
            collection_path(kind, ""),
            limit=self._options.page_size,
            continue_=token,
            resourceVersion="" if token else exact,
            resourceVersionMatch="Exact" if exact and not token else "",
        )
        body = (await self._client.request("GET", target)).body
        try:
            page = _list(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise UndecodableObject(f"a list of {resource.group_resource}", str(error), b"") from error
        return Page(page.metadata.resource_version, page.items or [], page.metadata.continue_)

    def changed(self, line: ResourceLine, obj: dict[str, Any]) -> dict[str, Any]:
        """What is saved of a decoded object."""
        obj["kind"], obj["apiVersion"] = line.kind, line.api_version
        return self._changed(line, obj)

    def _saved(self, line: ResourceLine, raw: msgspec.Raw) -> bytes | None:
        """The line of an object; None if it is not saved."""
        text = bytes(raw)
        if len(text) > MAX_LINE:
            self._skip_object(line, f"an object of {len(text):,} bytes; one of {MAX_LINE:,} is the largest")
            return None
        wrong = exceeded(text)
        if wrong:
            self._skip_object(line, f"an object: {wrong}")
            return None
        try:
            meta = _object(text).metadata
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._skip_object(line, f"an object that can't be read: {error}")
            return None
        if not meta.uid or meta.uid in self._uids:
            return None  # computed, not stored; or already saved as an object of another resource
        self._uids.add(meta.uid)
        if self.on_saved is not None:
            self.on_saved(line, meta)
        head = f'{{"kind":"{line.kind}","apiVersion":"{line.api_version}",'.encode()
        changes = (line.resource, line.group) in _CHANGED or self._options.anonymize is not None
        if not changes and text.startswith(b'{"metadata":') and b"\n" not in text:
            return head + text[1:]
        obj = {"kind": line.kind, "apiVersion": line.api_version, **_any(text)}
        obj["kind"], obj["apiVersion"] = line.kind, line.api_version
        return _encode(self._changed(line, obj))

    def _changed(self, line: ResourceLine, obj: dict[str, Any]) -> dict[str, Any]:
        if not line.group and line.resource == "secrets" and not self._options.secret_values:
            obj = without_values(obj)
        elif line.group_resource == ".".join(reversed(DEFINITIONS)):
            self._note_storage_version(obj)
        return self._options.anonymize(line, obj) if self._options.anonymize is not None else obj

    def _note_storage_version(self, definition: Mapping[str, Any]) -> None:
        """Record the storage version of a custom resource."""
        name = (definition.get("metadata") or {}).get("name")
        for version in (definition.get("spec") or {}).get("versions") or ():
            if isinstance(version, dict) and version.get("storage") and isinstance(name, str):
                self.storage_versions[name] = str(version.get("name"))

    def _skip_object(self, line: ResourceLine, reason: str) -> None:
        self.skipped.append(Skipped(line.group_resource, reason[:500]))


_CHANGED = (("secrets", ""), DEFINITIONS[::-1])
"""Resources whose objects are always decoded."""


def line_of(resource: Resource, version: str) -> ResourceLine:
    """The line before the objects of a resource."""
    return ResourceLine(
        resource=resource.name,
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        namespaced=resource.namespaced,
        resource_version=version,
    )


def _next_token(error: ApiError) -> str:
    status: Status = error.status
    return status.metadata.continue_
