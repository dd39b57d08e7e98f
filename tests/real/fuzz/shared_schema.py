"""The fields that both releases know: ours from the schema table, theirs from the OpenAPI of the running server."""

from functools import cached_property
from typing import Any

from pilothouse.api import schema
from pilothouse.api.schema import Definition, Field
from pilothouse.apiserver.resources import ResourceInfo, built_in

RENAMED = {
    "io.k8s.api.core.v1.LifecycleHandler": "io.k8s.api.core.v1.Handler",
    "io.k8s.api.core.v1.VolumeResourceRequirements": "io.k8s.api.core.v1.ResourceRequirements",
    "io.k8s.api.networking.v1.IngressLoadBalancerStatus": "io.k8s.api.core.v1.LoadBalancerStatus",
    "io.k8s.api.networking.v1.IngressLoadBalancerIngress": "io.k8s.api.core.v1.LoadBalancerIngress",
}
"""Types that got a name of their own later, with the name that the older release has for them."""
IGNORED_RESOURCES = frozenset({"componentstatuses"})


class SharedSchema:
    """What can be said to both servers."""

    def __init__(self, openapi: dict[str, Any]) -> None:
        self._theirs: dict[str, Any] = openapi["definitions"]
        self._paths = frozenset(openapi["paths"])
        self._fields: dict[str, dict[str, Field]] = {}
        self._schema = schema.load()

    def fields(self, definition: Definition) -> dict[str, Field]:
        """The fields of a type that both know, by name."""
        found = self._fields.get(definition.name)
        if found is None:
            theirs = self._theirs.get(RENAMED.get(definition.name, definition.name), {}).get("properties", {})
            found = {name: field for name, field in definition.fields.items() if name in theirs}
            self._fields[definition.name] = found
        return found

    def kind(self, api_version: str, kind: str) -> Definition | None:
        """The type of a document that says this of itself."""
        group, _slash, version = api_version.rpartition("/")
        return self._schema.for_kind(group, version, kind)

    @cached_property
    def resources(self) -> tuple[ResourceInfo, ...]:
        """Every resource that both serve, in the order of our table."""
        return tuple(info for info in built_in() if info.resource not in IGNORED_RESOURCES and self._has(info, ""))

    def subresources(self, info: ResourceInfo) -> tuple[str, ...]:
        """The subresources that both serve."""
        return tuple(sorted(name for name in info.subresources if self._has(info, name)))

    def _has(self, info: ResourceInfo, subresource: str) -> bool:
        root = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
        path = f"{root}/{'namespaces/{namespace}/' if info.namespaced else ''}{info.resource}"
        return (f"{path}/{{name}}/{subresource}" if subresource else path) in self._paths
