"""Selects the resources to save, their version and order. Pure.

Each resource is saved once: Events are served by two API groups, and older servers serve Deployments, Ingresses and
others in ``extensions`` as well.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from pilothouse.api.schema import load
from pilothouse.machinery.api_resources import Discovery, Resource

DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
_SHADOWED = "extensions"
_ALSO_EVENTS = ("events.k8s.io", "events")
_COMPUTED = (("", "componentstatuses"),)
"""Listed, but not stored."""
_stable = re.compile(r"v\d+").fullmatch
_AGGREGATED = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")


NONE_KNOWN: Mapping[str, str] = MappingProxyType({})


def listed_resources(discovery: Discovery, storage_versions: Mapping[str, str] = NONE_KNOWN) -> list[Resource]:
    """The resources to list, CustomResourceDefinitions first. ``storage_versions`` has the storage version by the name
    of the definition (``widgets.example.com``). Built-in kinds are listed in the storage version of this server if the
    cluster serves it, otherwise in the preferred version."""
    chosen: dict[tuple[str, str], Resource] = {}
    for resource in discovery.resources():
        key = (resource.group, resource.name)
        if key in _COMPUTED or key == _ALSO_EVENTS or resource.group in _AGGREGATED or not resource.supports("list"):
            continue
        other = chosen.get(key)
        if other is None or (_is_stored(resource, storage_versions) and not _is_stored(other, storage_versions)):
            chosen[key] = resource
    names = {resource.name for resource in chosen.values() if resource.group != _SHADOWED}
    resources = [resource for resource in chosen.values() if resource.group != _SHADOWED or resource.name not in names]
    return sorted(resources, key=_rank)


def _rank(resource: Resource) -> tuple[int, str, str]:
    first = (resource.group, resource.name)
    return (0 if first == DEFINITIONS else 1 if first == ("", "namespaces") else 2, resource.group, resource.name)


def _is_stored(resource: Resource, storage_versions: Mapping[str, str]) -> bool:
    stored = storage_versions.get(resource.group_resource)
    if stored is not None:
        return resource.version == stored
    is_built_in = (resource.group, resource.version, resource.kind) in load().kinds
    return is_built_in and _stable(resource.version) is not None
