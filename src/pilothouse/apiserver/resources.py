"""The table of served resources: those of v1.36, and those of CustomResourceDefinitions.

The built-in table is data (``data/resources.json``, as discovery of kube-apiserver v1.36.2 shows it), and what is there
only behind a feature gate is ``BEHIND_GATES``. Routing asks it what a path means, handlers ask it where objects are
stored, and discovery prints it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


_READ_WRITE = ("get", "patch", "update")


class Subresource(msgspec.Struct, frozen=True, array_like=True):
    """A part of a resource with an address of its own. Empty group and version mean those of the resource."""

    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = _READ_WRITE


class ResourceInfo(msgspec.Struct, frozen=True, eq=False, rename="camel"):
    """One resource in one version, as it is served. Two are the same only if they are the same object.

    ``custom`` is None for built-in resources; for a custom one it is what the definition says beyond this table
    (``apiextensions.CustomVersion``). What comes after it follows from the names.
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
        """Where the object of that name is stored."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else self.prefix + name

    def list_prefix(self, namespace: str) -> str:
        """What the keys of the objects of that namespace begin with; an empty namespace means all."""
        return f"{self.prefix}{namespace}/" if namespace else self.prefix


def storage_prefix(group: str, resource: str) -> str:
    """What the keys of all objects of a resource begin with.

    Events are one kind of object under two groups (v1 and events.k8s.io/v1), stored once.
    """
    if group == "events.k8s.io":
        group = ""
    return f"{group}/{resource}/"


@lru_cache(maxsize=1)
def built_in() -> tuple[ResourceInfo, ...]:
    """The built-in resources, in the order in which discovery shows them."""
    text = packaged("apiserver/data/resources.json")
    return msgspec.json.decode(text, type=tuple[ResourceInfo, ...])


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
"""Resources that are served only while a gate of v1.36 is on, by gate; some gates only keep fields of resources that
are served anyway (``Strategy.disabled_gates``). Upstream wants ``--runtime-config`` to name their versions as well."""


def gated(gates: Iterable[str]) -> tuple[ResourceInfo, ...]:
    """The resources that these gates add."""
    return tuple(info for gate in gates for info in BEHIND_GATES.get(gate, ()))


@lru_cache(maxsize=1)
def _built_in_resources() -> frozenset[tuple[str, str]]:
    """Groups and resources, also of those behind gates."""
    gated = (info for infos in BEHIND_GATES.values() for info in infos)
    return frozenset((info.group, info.resource) for info in (*built_in(), *gated))


class ResourceTable:
    """What one server serves now: the built-in resources, those of its ``gates``, plus the custom ones.

    ``generation`` rises with every change, so that what is derived from the table (discovery, OpenAPI) can be kept
    until then. Built-in resources come first and never change.
    """

    def __init__(self, gates: Iterable[str] = ()) -> None:
        self.generation = 0
        own = (*built_in(), *gated(gates))
        self._by_path: dict[tuple[str, str, str], ResourceInfo] = {
            (info.group, info.version, info.resource): info for info in own
        }
        self._built_in_groups = frozenset(info.group for info in own)
        self._custom: dict[str, tuple[ResourceInfo, ...]] = {}
        self._group_versions: dict[tuple[str, str], int] = {}
        self._listeners: list[Callable[[], None]] = []
        self._count_group_versions()

    def find(self, group: str, version: str, resource: str) -> ResourceInfo | None:
        """The resource served at that path, if any."""
        return self._by_path.get((group, version, resource))

    def built_in(self, group: str, resource: str) -> ResourceInfo:
        """Version v1 of a built-in resource."""
        return self._by_path[(group, "v1", resource)]

    def serves(self, group: str, version: str) -> bool:
        """Whether anything is served in that group and version."""
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
        """The versions served for the custom resource definition of that name."""
        return self._custom.get(definition, ())

    def set_custom(self, definition: str, infos: tuple[ResourceInfo, ...]) -> None:
        """Serve exactly these versions for a custom resource definition; none takes it out of service.

        What is built in is never served as a custom resource, in whatever version, and what is served already is not
        replaced: the conditions of a definition, which say that its names are free, can be written by others. The
        objects of both would be the same, without the checks of those that are built in.
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
        """Serve these besides: resources of groups that are neither built in nor of a definition, nor stored."""
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
