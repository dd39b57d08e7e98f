"""The client: all verbs of the API, typed and raw, over any transport.

Loops reach the cluster only through this. Below it is a ``wire.Transport``: ``RemoteTransport``, the embedded server's
local one, or an ``Interceptor`` around either.
"""

import os
import sys
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

import pilothouse
from pilothouse.api import wire
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectList
from pilothouse.client.calls import Calls
from pilothouse.client.decode import Decoders, Entry, OnUndecodable, Page, decoders_of
from pilothouse.client.errors import Expired
from pilothouse.client.memo import DecodeMemo
from pilothouse.client.metrics import ClientMetrics
from pilothouse.client.patches import Patch
from pilothouse.client.requests import (
    Body,
    FixedHeaders,
    collection_path,
    creation_path,
    delete_options,
    encode_body,
    object_path,
    with_query,
)
from pilothouse.client.watch import Watch
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.durations import format_duration

if TYPE_CHECKING:
    from pilothouse.machinery.api_resources import Discovery

with lazy_imports():
    from pilothouse.client import discovery, warnings

T = TypeVar("T")

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_JSON = "application/json"
NOTHING_WIDER: Mapping[type[Any], type[Any]] = {}


def default_user_agent(program: str = "pilothouse", suffix: str = "") -> str:
    """``<program>/<version> (<os>/<arch>)`` and ``/<suffix>``, as upstream's programs introduce themselves."""
    machine = os.uname().machine.lower() if hasattr(os, "uname") else "unknown"
    agent = f"{program}/v{pilothouse.__version__} ({sys.platform}/{_ARCHITECTURES.get(machine, machine)})"
    return f"{agent}/{suffix}" if suffix else agent


class Client:
    """A client of one API server.

    ``qps`` and ``burst`` limit the rate with upstream's token bucket (0: no limit); opening a watch is not limited.
    Requests are retried as described in ``client.retry``. ``fence`` is called before every attempt of a write and may
    raise to prevent it. ``memo`` shares decoded watch events between the clients of one process. If ``wider`` has
    another view for a requested one, a subclass, that is decoded instead, so that readers of more fields share it.

    A call raises ``ApiError`` if the server rejects it, ``TransportError`` (a ``ConnectionError``) or ``TimeoutError``
    if there is no response, ``UndecodableObject`` if the response does not fit the view, and ``ValueError`` if a name
    or namespace is missing. If a write is cancelled, it may have been carried out or not. There is no overall timeout:
    use ``asyncio.timeout``.

    Namespaces: ``""`` means all namespaces for list and watch, and is rejected if an object of a namespaced kind is
    named or created. It is ignored for cluster-scoped kinds. ``namespace_default`` is not used by the client; programs
    read it that use the namespace of a kubeconfig's context. Watches of informers request a timeout of at least
    ``min_watch_seconds`` (0: upstream's): a connection that may break silently needs a short one, a local one none.
    """

    def __init__(
        self,
        transport: wire.Transport,
        env: Env,
        *,
        qps: float = 0,
        burst: int = 0,
        user_agent: str = "",
        fence: Callable[[], None] | None = None,
        metrics: ClientMetrics | None = None,
        memo: DecodeMemo | None = None,
        wider: Mapping[type[Any], type[Any]] = NOTHING_WIDER,
        host: str = "",
        namespace_default: str = "default",
        min_watch_seconds: int = 0,
    ) -> None:
        self.env = env
        self.user_agent = user_agent or default_user_agent()
        self.namespace_default = namespace_default
        self.min_watch_seconds = min_watch_seconds
        self.transport = transport
        self._calls = Calls(
            transport,
            env,
            qps=qps,
            burst=burst,
            fence=fence,
            metrics=metrics,
            host=host or getattr(transport, "host", ""),
        )
        self._memo = memo
        self._wider = wider
        self._headers: dict[tuple[str, str], FixedHeaders] = {}
        self._plain = self._header_set(_JSON, "")
        self._writing = self._header_set(_JSON, _JSON)

    # Reading

    async def get(
        self, kind: Kind[T], name: str, namespace: str = "", *, subresource: str = "", resource_version: str = ""
    ) -> T:
        """Get one object. ``resource_version="0"`` accepts a version from the watch cache."""
        target = object_path(kind, namespace, name, subresource)
        if resource_version:
            target = with_query(target, resourceVersion=resource_version)
        return self._read(kind, await self._calls.send("GET", target, self._accepting(kind)), namespace, name)

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        on_undecodable: OnUndecodable | None = None,
    ) -> ObjectList[T]:
        """The objects of a kind, or a page of them.

        An object that does not fit the view fails the call, unless ``on_undecodable`` accepts it; then it is omitted.
        """
        target = with_query(
            collection_path(kind, namespace),
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=limit,
            continue_=continue_,
            resourceVersion=resource_version,
            resourceVersionMatch=resource_version_match,
        )
        body = await self._calls.send("GET", target, self._accepting(kind, many=True))
        return self._decoders(kind).list(kind, body, on_undecodable)

    async def list_page(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        keep_raw: bool = True,
        on_undecodable: OnUndecodable | None = None,
    ) -> Page[T]:
        """As ``list``, with each object's own JSON (a copy, so that it does not keep the page in memory)."""
        target = with_query(
            collection_path(kind, namespace),
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=limit,
            continue_=continue_,
            resourceVersion=resource_version,
            resourceVersionMatch=resource_version_match,
        )
        body = await self._calls.send("GET", target, self._accepting(kind, many=True))
        return self._decoders(kind).page(kind, body, keep_raw=keep_raw, on_undecodable=on_undecodable)

    async def list_all(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
        keep_raw: bool = False,
        on_undecodable: OnUndecodable | None = None,
    ) -> Page[T]:
        """Every object, fetched page by page at one resourceVersion.

        If the continue token expires, everything is listed again in one request (client-go ``tools/pager``).
        """
        entries: list[Entry[T]] = []
        token, limit = "", page_size
        while True:
            try:
                page = await self.list_page(
                    kind,
                    namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    limit=limit,
                    continue_=token,
                    keep_raw=keep_raw,
                    on_undecodable=on_undecodable,
                )
            except Expired:
                if not token:
                    raise
                entries, token, limit = [], "", 0
                continue
            entries += page.items
            token = page.metadata.continue_
            if not token:
                return Page(page.metadata, entries)

    def watch(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        allow_bookmarks: bool = True,
        send_initial_events: bool | None = None,
        timeout_seconds: int | None = None,
        keep_raw: bool = False,
        on_undecodable: OnUndecodable | None = None,
    ) -> Watch[T]:
        """Changes as they happen: ``async with client.watch(...) as batches: async for batch in batches: ...``.

        ``send_initial_events`` requests the current state first (as events if True; see ``resourceVersionMatch``).
        ``keep_raw`` adds the JSON of the object to every event. Entering the context sends the request and raises the
        server's error; if all connections broke, the watch is empty.
        """
        target = with_query(
            collection_path(kind, namespace),
            watch=True,
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            allowWatchBookmarks=allow_bookmarks,
            sendInitialEvents="" if send_initial_events is None else str(send_initial_events).lower(),
            resourceVersionMatch="" if send_initial_events is None else "NotOlderThan",
            timeoutSeconds=timeout_seconds,
            # client-go sets both (v0.36, generated clients): the server's limit for watches, and the one for requests.
            timeout=format_duration(timeout_seconds) if timeout_seconds else "",
        )
        headers = self._accepting(kind)
        return Watch(
            kind,
            self._decoders(kind),
            lambda: self._calls.open(target, headers),
            keep_raw=keep_raw,
            timeout_seconds=timeout_seconds,
            on_undecodable=on_undecodable,
            memo=self._memo,
        )

    # Writing

    async def create(
        self,
        kind: Kind[T],
        body: Body,
        namespace: str = "",
        *,
        subresource: str = "",
        name: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: str = "",
    ) -> T:
        """A new object; with ``name`` and ``subresource`` a new binding, eviction or token of an existing one.

        ``field_validation`` (Strict, Warn, Ignore) determines how the server handles unknown fields; without it they
        are dropped.
        """
        if subresource:
            target = object_path(kind, namespace, name, subresource)
        else:
            target = creation_path(kind, namespace)
        if dry_run or field_manager or field_validation:
            target = with_query(
                target,
                dryRun="All" if dry_run else "",
                fieldManager=field_manager,
                fieldValidation=field_validation,
            )
        headers = self._accepting(kind, _JSON)
        return self._read(kind, await self._calls.send("POST", target, headers, encode_body(body)), namespace, name)

    async def update(
        self,
        kind: Kind[T],
        name: str,
        body: msgspec.Raw | bytes,
        namespace: str = "",
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
    ) -> T:
        """Replace the whole object. ``body`` is JSON, never a view: a view would remove the fields that it does not
        have.

        If it has a resourceVersion, the server responds with ``Conflict`` unless that is the current one.
        """
        target = object_path(kind, namespace, name, subresource)
        if dry_run or field_manager:
            target = with_query(target, dryRun="All" if dry_run else "", fieldManager=field_manager)
        headers = self._accepting(kind, _JSON)
        return self._read(kind, await self._calls.send("PUT", target, headers, encode_body(body)), namespace, name)

    def renewal(self, kind: Kind[Any], name: str, namespace: str) -> Callable[[str], bytes | None] | None:
        """For a Lease that ``update`` has renewed before, on a server in this process: renew it again without a request
        (``wire.RenewsAtOnce``). None if that is not possible: with a remote server or one with a store that is not in
        memory, and over transports that inject faults, limit, trace or record requests."""
        return self._calls.renewal(object_path(kind, namespace, name), self._accepting(kind, _JSON))

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        field_manager: str = "",
        force: bool | None = None,
        dry_run: bool = False,
        field_validation: str = "",
    ) -> T:
        """A change to an object. ``force`` (only with ``apply_patch``) takes over fields that others own."""
        target = object_path(kind, namespace, name, subresource)
        if field_manager or force is not None or dry_run or field_validation:
            target = with_query(
                target,
                fieldManager=field_manager,
                force="" if force is None else str(force).lower(),
                dryRun="All" if dry_run else "",
                fieldValidation=field_validation,
            )
        headers = self._accepting(kind, patch.content_type)
        return self._read(kind, await self._calls.send("PATCH", target, headers, patch.body), namespace, name)

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation_policy: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> msgspec.Raw:
        """Delete one object. ``uid`` and ``resource_version`` are preconditions (``Conflict`` when they fail).

        Returns the response: the object in its last or current state, or a Status, depending on kind and finalizers.
        """
        options = delete_options(
            uid=uid,
            resource_version=resource_version,
            propagation_policy=propagation_policy,
            grace_period_seconds=grace_period_seconds,
            dry_run=dry_run,
        )
        target = object_path(kind, namespace, name)
        return msgspec.Raw(await self._calls.send("DELETE", target, self._accepting(kind, _JSON), options))

    async def delete_collection(
        self,
        kind: Kind[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        propagation_policy: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete all objects that the selectors match. A namespaced kind needs a namespace."""
        target = with_query(
            creation_path(kind, namespace),
            labelSelector=label_selector,
            fieldSelector=field_selector,
            resourceVersion=resource_version,
        )
        options = delete_options(
            uid="",
            resource_version="",
            propagation_policy=propagation_policy,
            grace_period_seconds=grace_period_seconds,
            dry_run=dry_run,
        )
        await self._calls.send("DELETE", target, self._accepting(kind, _JSON, many=True), options)

    # Everything else

    async def discover(self) -> "Discovery":
        """The resources that the server serves; see ``client.discovery``. Parts that could not be read are in its
        ``failures``."""
        return await discovery.discover(self)

    def discover_nowait(self) -> "Discovery | None":
        """``discover`` without waiting, from a server in this process; None if that needs requests."""
        headers = self._header_set(discovery.ACCEPT, "")
        return discovery.discover_nowait(lambda path: self._calls.get_nowait(path, headers))

    async def server_version(self) -> dict[str, str]:
        """``/version``: ``gitVersion``, ``major``, ``minor`` and more."""
        body = await self._calls.send("GET", "/version", self._plain)
        version: dict[str, str] = msgspec.json.decode(body)
        return version

    async def request(
        self, method: str, target: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> wire.Response:
        """Send any request, with rate limit, fence and retries like the others. Raises ``ApiError`` unless the response
        is 2xx."""
        base = self._writing if body else self._plain
        merged = FixedHeaders({**base, **headers}) if headers else base
        return await self._calls.exchange(method, target, merged, body)

    def limited(self, seconds: float) -> "Client":
        """The same client, but every call requests that timeout from the server (client-go ``rest.Config.Timeout``).
        For reads and writes; watches have a timeout of their own.

        The caller still needs its own timeout: request or response may be lost.
        """
        limited = copy(self)
        limited._calls = self._calls.limited(seconds)
        return limited

    def with_warning_handler(self, handle: Callable[[str], None]) -> "Client":
        """The same client; ``handle`` is called with each warning of the API server (client-go's ``WarningHandler``).
        Clients without one drop them."""
        other = copy(self)
        other.transport = warnings.WarningHandler(self.transport, handle)
        other._calls = self._calls.over(other.transport)
        return other

    def fenced(self, fence: Callable[[], None]) -> "Client":
        """The same client with a fence: ``fence`` is called before every attempt of a write and stops it by raising."""
        fenced = copy(self)
        fenced._calls = self._calls.fenced(fence)
        return fenced

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    # Parts

    def _read(self, kind: Kind[T], body: bytes, namespace: str, name: str) -> T:
        if kind.view is msgspec.Raw:
            return msgspec.Raw(body)  # type: ignore[return-value]
        full_name = f"{namespace}/{name}" if namespace else name
        return self._decoders(kind).one(body, lambda: f"{kind.group_resource} {full_name}")

    def _decoders(self, kind: Kind[T]) -> Decoders[T]:
        view = kind.view
        return decoders_of(self._wider.get(view, view))

    def _accepting(self, kind: Kind[Any], content_type: str = "", *, many: bool = False) -> FixedHeaders:
        if kind.metadata_only:
            form = "PartialObjectMetadataList" if many else "PartialObjectMetadata"
            accept = f"application/json;as={form};g=meta.k8s.io;v=v1,application/json"
        elif not content_type:
            return self._plain
        elif content_type == _JSON:
            return self._writing
        else:
            accept = _JSON
        return self._header_set(accept, content_type)

    def _header_set(self, accept: str, content_type: str) -> FixedHeaders:
        header_set = self._headers.get((accept, content_type))
        if header_set is None:
            headers = {"accept": accept, "user-agent": self.user_agent}
            if content_type:
                headers["content-type"] = content_type
            header_set = self._headers[accept, content_type] = FixedHeaders(headers)
        return header_set
