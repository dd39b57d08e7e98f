"""The replicas of the workloads that own some pods.

Built-in workloads are read from caches; all others, and those that a cache does not have, by their scale subresource.
Upstream: ``getExpectedScale`` and the finders of v1.36
``pkg/controller/disruption/disruption.go``.
"""

from collections.abc import Sequence

import msgspec

from pilothouse.api.apps import Deployment, ReplicaSet, StatefulSet
from pilothouse.api.core import Pod, ReplicationController
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, OwnerReference, View
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import NotFound
from pilothouse.machinery.api_resources import Resource
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import Cache

APPS = ("apps", "extensions")


class ScaleNotFound(Exception):
    """A workload has no size; a retry does not help."""


class DiscoveryFailed(Exception):
    """Discovery failed, so it is not known whether the workload is served."""


class Scale(msgspec.Struct, frozen=True):
    """The size of a workload."""

    uid: str
    replicas: int


class Expected(msgspec.Struct, frozen=True):
    """The sum over all workloads, and the names of pods that belong to none."""

    replicas: int
    unmanaged: tuple[str, ...] = ()


class WorkloadCaches(msgspec.Struct, frozen=True, kw_only=True):
    controllers: Cache[ReplicationController]
    replica_sets: Cache[ReplicaSet]
    deployments: Cache[Deployment]
    stateful_sets: Cache[StatefulSet]


def group_of(api_version: str) -> str:
    """``apps`` of ``apps/v1``, empty for ``v1``. Raises ``ScaleNotFound`` for anything else."""
    if api_version.count("/") > 1:
        raise ScaleNotFound(f"unexpected GroupVersion string: {api_version}")
    return api_version.rpartition("/")[0]


def cached_scale(caches: WorkloadCaches, owner: OwnerReference, namespace: str) -> Scale | None:
    """The size of a workload in a cache, by name and uid. Of a ReplicaSet that a Deployment controls the Deployment's
    size, which is right also during a rollout."""
    group, key = group_of(owner.api_version), f"{namespace}/{owner.name}"
    match owner.kind:
        case "ReplicationController" if group == "":
            return _scale(caches.controllers.get(key), owner)
        case "StatefulSet" if group == "apps":
            return _scale(caches.stateful_sets.get(key), owner)
        case "ReplicaSet" if group in APPS:
            rs = caches.replica_sets.get(key)
            if rs is None or rs.metadata.uid != owner.uid:
                return None
            deployment = controller_of(rs.metadata)
            if deployment is None or deployment.kind != "Deployment":
                return _scale(rs, owner)
            if group_of(deployment.api_version) in APPS:
                return _scale(caches.deployments.get(f"{namespace}/{deployment.name}"), deployment)
    return None


def _scale(
    workload: ReplicationController | ReplicaSet | Deployment | StatefulSet | None, owner: OwnerReference
) -> Scale | None:
    if workload is None or workload.metadata.uid != owner.uid:
        return None
    # The server's default is 1.
    return Scale(owner.uid, 1 if workload.spec.replicas is None else workload.spec.replicas)


class ScaleFinder:
    """Reads caches first, then the server."""

    def __init__(self, client: Client, mapper: RestMapper | None, caches: WorkloadCaches) -> None:
        self._client = client
        self._mapper = mapper if mapper is not None else RestMapper(client)
        self._caches = caches

    async def expected(self, pods: Sequence[Pod]) -> Expected:
        """The replicas of all owners of the pods. Raises ``ScaleNotFound`` for the first pod whose owner has no scale,
        ``DiscoveryFailed``, and the client's errors."""
        scales: dict[str, int] = {}
        counted_uids: set[str] = set()  # uids of owners whose scale is in the sum; never iterated
        unmanaged = []
        for pod in pods:
            owner = controller_of(pod.metadata)
            if owner is None:
                unmanaged.append(pod.metadata.name)
                continue
            if owner.uid in counted_uids:
                continue
            namespace = pod.metadata.namespace
            scale = cached_scale(self._caches, owner, namespace) or await self._get_scale(owner, namespace)
            if scale is None:
                raise ScaleNotFound(f"found no controllers for pod {quote(pod.metadata.name)}")
            counted_uids.add(owner.uid)
            scales[scale.uid] = scale.replicas
        return Expected(sum(scales.values()), tuple(unmanaged))

    async def _get_scale(self, owner: OwnerReference, namespace: str) -> Scale | None:
        """The scale subresource of the owner; ``None`` if the owner does not exist."""
        try:
            resource = await self._mapper.resource_for(owner.api_version, owner.kind)
        except LookupError as error:
            raise DiscoveryFailed(str(error)) from error
        if resource is None:
            raise ScaleNotFound(f"no matches for kind {quote(owner.kind)} in version {quote(owner.api_version)}")
        served = await self._preferred(resource)
        # An owner is in the namespace of the pod; cluster-scoped ones, such as nodes, have no size.
        kind = Kind(served.group, served.version, served.name, served.kind, True, _ScaleView)
        try:
            scale = await self._client.get(kind, owner.name, namespace, subresource="scale")
        except NotFound:
            if await self._has_scale(resource):
                return None
            raise ScaleNotFound(f"{resource.group_resource} does not implement the scale subresource") from None
        if scale.metadata.uid != owner.uid:
            return None
        return Scale(owner.uid, scale.spec.replicas)

    async def _preferred(self, resource: Resource) -> Resource:
        """The same resource in the version that the server prefers."""
        discovery = await self._mapper.discovery()
        for preferred in discovery.preferred_resources():
            if (preferred.group, preferred.name) == (resource.group, resource.name):
                return preferred
        return resource

    async def _has_scale(self, resource: Resource) -> bool:
        """Whether the 404 was about the object and not its scale subresource. Not cached, since the cached discovery
        may be the cause."""
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        response = await self._client.request("GET", root)
        listed = msgspec.json.decode(response.body, type=_Resources)
        return any(
            served.name == f"{resource.name}/scale" and (served.group, served.version, served.kind) in SCALE_FORMS
            for served in listed.resources
        )


SCALE_FORMS = (
    ("autoscaling", "v1", "Scale"),
    ("apps", "v1beta1", "Scale"),
    ("apps", "v1beta2", "Scale"),
    ("extensions", "v1beta1", "Scale"),
)
"""The versions of scale that client-go v0.36 reads (``scale/util.go``)."""


class _ScaleSpec(View, frozen=True):
    replicas: int = 0


class _ScaleView(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _ScaleSpec = _ScaleSpec()


class _ResourceEntry(View, frozen=True):
    name: str = ""
    group: str = ""
    version: str = ""
    kind: str = ""


class _Resources(View, frozen=True):
    resources: tuple[_ResourceEntry, ...] = ()
