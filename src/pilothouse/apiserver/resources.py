"""The table of served resources: those of v1.36, and those of CustomResourceDefinitions.

The built-in table is data (``data/resources.json``, from the discovery of kube-apiserver v1.36.2); resources behind
feature gates are in ``BEHIND_GATES``. Routing finds resources in it, handlers get their storage keys from it, and
discovery prints it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.machinery.api_resources import Discovery, GroupVersion, Resource

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


_READ_WRITE = ("get", "patch", "update")


class Subresource(msgspec.Struct, frozen=True, array_like=True):
    """A subresource. Empty group and version are those of the resource."""

    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = _READ_WRITE


class ResourceInfo(msgspec.Struct, frozen=True, eq=False, rename="camel"):
    """One served version of a resource. Compared by identity.

    ``custom`` is None for built-in resources; for a custom one it has the parts of the definition that are not in this
    table (``apiextensions.CustomVersion``). The fields after it are derived.
    """

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = STANDARD_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = {}
    singular: str = ""
    list_kind: str = ""
    custom: Any = None
    api_version: str = ""
    group_resource: str = ""
    group_kind: str = ""
    prefix: str = ""
    head: bytes = b""

    def __post_init__(self) -> None:
        group, resource, kind = self.group, self.resource, self.kind
        api_version = f"{group}/{self.version}" if group else self.version
        for field, value in (
            ("singular", self.singular or kind.lower()),
            ("list_kind", self.list_kind or kind + "List"),
            ("api_version", api_version),
            ("group_resource", f"{resource}.{group}" if group else resource),
            ("group_kind", f"{kind}.{group}" if group else kind),
            ("prefix", storage_prefix(group, resource)),
            ("head", b'{"kind":"%s","apiVersion":"%s",' % (kind.encode(), api_version.encode())),
        ):
            msgspec.structs.force_setattr(self, field, value)

    def key(self, namespace: str, name: str) -> str:
        """The storage key of an object."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else self.prefix + name

    def list_prefix(self, namespace: str) -> str:
        """The prefix of the keys of a namespace's objects; an empty namespace means all."""
        return f"{self.prefix}{namespace}/" if namespace else self.prefix


def storage_prefix(group: str, resource: str) -> str:
    """The prefix of the keys of a resource's objects.

    Events are served in two groups (v1 and events.k8s.io/v1), and stored once.
    """
    if group == "events.k8s.io":
        group = ""
    return f"{group}/{resource}/"


@lru_cache(maxsize=1)
def built_in() -> tuple[ResourceInfo, ...]:
    """The built-in resources, in the order of discovery."""
    text = packaged("apiserver/data/resources.json")
    return msgspec.json.decode(text, type=tuple[ResourceInfo, ...])


def built_in_discovery() -> Discovery:
    """The built-in resources as a client discovers them, without a server."""
    versions: dict[tuple[str, str], list[Resource]] = {}
    for info in built_in():
        resource = Resource(
            info.group,
            info.version,
            info.resource,
            info.kind,
            info.namespaced,
            info.verbs,
            info.singular,
            info.short_names,
            info.categories,
            tuple(info.subresources),
        )
        versions.setdefault((info.group, info.version), []).append(resource)
    return Discovery(tuple(GroupVersion(*name, tuple(members)) for name, members in versions.items()))


def _with_status(group: str, version: str, resource: str, kind: str, *, namespaced: bool) -> ResourceInfo:
    return ResourceInfo(group, version, resource, kind, namespaced, subresources={"status": Subresource(kind)})


BEHIND_GATES: Mapping[str, tuple[ResourceInfo, ...]] = {
    "DRAResourcePoolStatus": (
        _with_status(
            "resource.k8s.io",
            "v1alpha3",
            "resourcepoolstatusrequests",
            "ResourcePoolStatusRequest",
            namespaced=False,
        ),
    ),
    "StorageVersionMigrator": (
        _with_status(
            "storagemigration.k8s.io",
            "v1beta1",
            "storageversionmigrations",
            "StorageVersionMigration",
            namespaced=False,
        ),
    ),
    "GenericWorkload": (
        _with_status("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", namespaced=True),
        ResourceInfo("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", namespaced=True),
    ),
    "MaxUnavailableStatefulSet": (),
}
"""Resources that are only served if a feature gate of v1.36 is enabled, by gate; some gates only keep fields of
resources that are always served (``Strategy.disabled_gates``). Upstream also requires ``--runtime-config`` for their
versions."""


def gated(gates: Iterable[str]) -> tuple[ResourceInfo, ...]:
    """The resources that these gates add."""
    return tuple(info for gate in gates for info in BEHIND_GATES.get(gate, ()))


@lru_cache(maxsize=1)
def _built_in_resources() -> frozenset[tuple[str, str]]:
    """Group and resource of all built-in resources, those behind gates included."""
    gated = (info for infos in BEHIND_GATES.values() for info in infos)
    return frozenset((info.group, info.resource) for info in (*built_in(), *gated))


class ResourceTable:
    """The resources that one server serves: built-in ones, those of its ``gates``, and custom ones.

    ``generation`` increases with every change, so that derived documents (discovery, OpenAPI) can be cached. Built-in
    resources come first and never change.
    """

    def __init__(self, gates: Iterable[str] = ()) -> None:
        self.generation = 0
        served = (*built_in(), *gated(gates))
        self._by_path: dict[tuple[str, str, str], ResourceInfo] = {
            (info.group, info.version, info.resource): info for info in served
        }
        self._built_in_groups = frozenset(info.group for info in served)
        self._custom: dict[str, tuple[ResourceInfo, ...]] = {}
        self._group_versions: dict[tuple[str, str], int] = {}
        self._listeners: list[Callable[[], None]] = []
        self._count_group_versions()

    def find(self, group: str, version: str, resource: str) -> ResourceInfo | None:
        """The resource served at that path, or None."""
        return self._by_path.get((group, version, resource))

    def built_in(self, group: str, resource: str) -> ResourceInfo:
        """Version v1 of a built-in resource."""
        return self._by_path[(group, "v1", resource)]

    def serves(self, group: str, version: str) -> bool:
        """Whether a resource is served in that group version."""
        return (group, version) in self._group_versions

    def is_built_in(self, group: str) -> bool:
        """Whether the group is one of Kubernetes' own."""
        return group in self._built_in_groups

    def is_custom(self, group: str) -> bool:
        """Whether the group is one of custom resources."""
        return any(infos[0].group == group for infos in self._custom.values())

    def __iter__(self) -> Iterator[ResourceInfo]:
        return iter(self._by_path.values())

    def custom(self, definition: str) -> tuple[ResourceInfo, ...]:
        """The served versions of a custom resource definition."""
        return self._custom.get(definition, ())

    def set_custom(self, definition: str, infos: tuple[ResourceInfo, ...]) -> None:
        """Serve exactly these versions for a custom resource definition; with none it is no longer served.

        Built-in resources are never served as custom ones, in any version, and served ones are not replaced: the
        condition NamesAccepted of a definition can be written by other programs. The objects would be shared, without
        the validation of the built-in kind.
        """
        for info in self._custom.pop(definition, ()):
            del self._by_path[(info.group, info.version, info.resource)]
        infos = tuple(
            info
            for info in infos
            if (info.group, info.resource) not in _built_in_resources()
            and (info.group, info.version, info.resource) not in self._by_path
        )
        if infos:
            self._custom[definition] = infos
        for info in infos:
            self._by_path[(info.group, info.version, info.resource)] = info
        self._changed()

    def _changed(self) -> None:
        self._count_group_versions()
        self.generation += 1
        for listener in self._listeners:
            listener()

    def set_virtual(self, infos: tuple[ResourceInfo, ...]) -> None:
        """Also serve these resources, which are not stored, in groups that are neither built in nor of a definition."""
        for info in infos:
            self._by_path[(info.group, info.version, info.resource)] = info
        self._changed()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every change."""
        self._listeners.append(listener)

    def _count_group_versions(self) -> None:
        counts: dict[tuple[str, str], int] = {}
        for group, version, _resource in self._by_path:
            counts[(group, version)] = counts.get((group, version), 0) + 1
        self._group_versions = counts
