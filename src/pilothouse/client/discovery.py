"""Discovery: the resources that an API server serves, and the resource of a kind.

``discover`` requests the aggregated form (one document each for ``/api`` and ``/apis``) and falls back to a document
per group version. A group version that cannot be read is a *partial failure*: the rest is returned, and ``failures``
has the errors, so that a broken aggregated API server does not stop garbage collection everywhere else.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from pilothouse.api import wire
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, View
from pilothouse.client.decode import decoders_of
from pilothouse.client.errors import ApiError, NotFound, UndecodableObject
from pilothouse.machinery.api_resources import Discovery, GroupVersion, Resource

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ACCEPT = f"{_AGGREGATED},application/json"


class Requester(Protocol):
    """The part of ``Client`` that discovery needs."""

    async def request(
        self, method: str, target: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> wire.Response:
        """Send, or raise ``ApiError``."""
        ...


async def discover(client: Requester) -> Discovery:
    """Read the server's discovery documents.

    Equal responses return the same object: compare with ``is`` to detect changes.

    Raises ``ApiError`` or ``ConnectionError`` when not even the list of groups can be had.
    """
    core, named_groups = await asyncio.gather(_root(client, "/api"), _root(client, "/apis"))
    if not core.unfetched and not named_groups.unfetched:
        return _merged(core, named_groups)
    versions: list[GroupVersion] = []
    failures: dict[str, str] = {}
    desired: list[str] = []
    for root in (core, named_groups):
        versions += root.versions
        failures |= root.failures
        desired += root.unfetched
    fetched = await asyncio.gather(*(_legacy_version(client, name) for name in desired))
    for name, result in zip(desired, fetched, strict=True):
        if isinstance(result, GroupVersion):
            versions.append(result)
        else:
            failures[name] = result
    return Discovery(tuple(versions), failures)


def discover_nowait(response_of: Callable[[str], wire.Response | None]) -> Discovery | None:
    """``discover`` without waiting, if ``answer`` returns the documents at ``/api`` and ``/apis`` and nothing else is
    needed; else None."""
    core = response_of("/api")
    apis = None if core is None else response_of("/apis")
    if core is None or apis is None:
        return None
    roots = _root_of(core, "/api"), _root_of(apis, "/apis")
    return None if roots[0].unfetched or roots[1].unfetched else _merged(*roots)


class RestMapper:
    """Kind to resource, remembered until ``reset``.

    Unknown kinds stay unknown until the next reset; kube-controller-manager resets every 30 s.
    """

    def __init__(self, client: Requester) -> None:
        self._client = client
        self._discovery: Discovery | None = None
        self._pending: asyncio.Future[Discovery] | None = None

    def reset(self) -> None:
        """Drop the cache; the next use requests it again. The result of a request in flight is only for its own
        callers."""
        self._discovery = None
        self._pending = None

    async def discovery(self) -> Discovery:
        """The cached discovery."""
        if self._discovery is None:
            if self._pending is None:
                # One request for all callers. It must not be cancelled with the first of them.
                self._pending = asyncio.ensure_future(discover(self._client))
                self._pending.add_done_callback(self._on_discovered)
            return await asyncio.shield(self._pending)
        return self._discovery

    def _on_discovered(self, asking: asyncio.Future[Discovery]) -> None:
        failed = asking.cancelled() or asking.exception() is not None
        if self._pending is asking:
            self._pending = None
            if not failed:
                self._discovery = asking.result()

    async def resource_for(self, api_version: str, kind: str) -> Resource | None:
        """The resource of that apiVersion and kind; None if the server has none.

        Raises the errors of ``discover``, and ``LookupError`` if this group version could not be read.
        """
        discovery = await self.discovery()
        resource = discovery.find(api_version, kind)
        if resource is None and api_version in discovery.failures:
            raise LookupError(f"{api_version} {kind}: discovery failed: {discovery.failures[api_version]}")
        return resource

    async def kind_for(self, api_version: str, kind: str) -> Kind[Object] | None:
        """As ``resource_for``, in the form that the client takes."""
        resource = await self.resource_for(api_version, kind)
        return resource.as_kind() if resource is not None else None


# Wire forms


class _ResponseKind(View, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _AggregatedSubresource(View, frozen=True):
    subresource: str = ""


class _AggregatedResource(View, frozen=True):
    resource: str = ""
    response_kind: _ResponseKind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[_AggregatedSubresource, ...] = ()


class _AggregatedVersion(View, frozen=True):
    version: str = ""
    freshness: str = ""
    resources: tuple[_AggregatedResource, ...] = ()


class _Name(View, frozen=True):
    name: str = ""


class _AggregatedGroup(View, frozen=True):
    metadata: _Name = _Name()
    versions: tuple[_AggregatedVersion, ...] = ()


class _AggregatedList(View, frozen=True):
    kind: str = ""
    items: tuple[_AggregatedGroup, ...] = ()


class _LegacyVersion(View, frozen=True):
    group_version: str = ""


class _LegacyGroup(View, frozen=True):
    name: str = ""
    versions: tuple[_LegacyVersion, ...] = ()
    preferred_version: _LegacyVersion = _LegacyVersion()


class _LegacyRoot(View, frozen=True):
    versions: tuple[str, ...] = ()
    groups: tuple[_LegacyGroup, ...] = ()


class _LegacyResource(View, frozen=True):
    name: str = ""
    singular_name: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    kind: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _LegacyResources(View, frozen=True):
    group_version: str = ""
    resources: tuple[_LegacyResource, ...] = ()


class _Root(msgspec.Struct, eq=False):
    versions: list[GroupVersion] = msgspec.field(default_factory=list)
    failures: dict[str, str] = msgspec.field(default_factory=dict)
    unfetched: list[str] = msgspec.field(default_factory=list)


@lru_cache(maxsize=8)
def _merged(core: _Root, named_groups: _Root) -> Discovery:
    """The same object for equal parts, so that callers detect by identity that nothing has changed."""
    return Discovery((*core.versions, *named_groups.versions), core.failures | named_groups.failures)


async def _root(client: Requester, path: str) -> _Root:
    try:
        response = await client.request("GET", path, headers={"accept": ACCEPT})
    except NotFound:
        return _Root()  # a server that has only one of the two (aggregated API servers lack /api)
    return _root_of(response, path)


def _root_of(response: wire.Response, path: str) -> _Root:
    # The Content-Type of the response determines the form, not that of the request.
    if "as=apigroupdiscoverylist" in response.headers.get("content-type", "").lower().replace(" ", ""):
        return _parse_aggregated(response.body)
    legacy = _decode(response.body, _LegacyRoot, path)
    unfetched = list(legacy.versions)
    for group in legacy.groups:
        names = [version.group_version for version in group.versions]
        # The preferred version comes first, as in the aggregated form.
        preferred = group.preferred_version.group_version
        unfetched += sorted(names, key=lambda name, first=preferred: name != first)  # type: ignore[misc]
    return _Root(unfetched=unfetched)


@lru_cache(maxsize=8)
def _parse_aggregated(body: bytes) -> _Root:
    """The document, decoded. With every half minute's request mostly the same bytes, and then the same parts."""
    document = _decode(body, _AggregatedList, "an aggregated document")
    root = _Root()
    for group in document.items:
        for version in group.versions:
            group_version = GroupVersion(group.metadata.name, version.version)
            if version.freshness == "Stale":
                root.failures[group_version.name] = "stale GroupVersion discovery"
                continue
            resources = tuple(
                Resource(
                    group=group.metadata.name,
                    version=version.version,
                    name=resource.resource,
                    kind=resource.response_kind.kind,
                    namespaced=resource.scope == "Namespaced",
                    verbs=resource.verbs,
                    singular=resource.singular_resource,
                    short_names=resource.short_names,
                    categories=resource.categories,
                    subresources=tuple(sub.subresource for sub in resource.subresources),
                )
                for resource in version.resources
                if resource.response_kind is not None
            )
            root.versions.append(msgspec.structs.replace(group_version, resources=resources))
    return root


async def _legacy_version(client: Requester, name: str) -> GroupVersion | str:
    group, _, version = name.rpartition("/")
    path = f"/apis/{name}" if group else f"/api/{name}"
    try:
        response = await client.request("GET", path)
        document = _decode(response.body, _LegacyResources, path)
    except (ApiError, ConnectionError, TimeoutError, UndecodableObject) as error:
        return str(error) or type(error).__name__
    subresources: dict[str, list[str]] = {}
    for resource in document.resources:
        parent, slash, sub = resource.name.partition("/")
        if slash:
            subresources.setdefault(parent, []).append(sub)
    return GroupVersion(
        group,
        version,
        tuple(
            Resource(
                group=group,
                version=version,
                name=resource.name,
                kind=resource.kind,
                namespaced=resource.namespaced,
                verbs=resource.verbs,
                singular=resource.singular_name,
                short_names=resource.short_names,
                categories=resource.categories,
                subresources=tuple(subresources.get(resource.name, ())),
            )
            for resource in document.resources
            if "/" not in resource.name
        ),
    )


def _decode(body: bytes, view: type[msgspec.Struct], description: str) -> Any:
    return decoders_of(view).one(body, lambda: f"discovery at {description}")
