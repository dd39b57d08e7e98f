"""The resources of an API server, as data: the result of ``client.discovery``."""

from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.machinery import flags


class Resource(msgspec.Struct, frozen=True):
    """One served resource. Subresources are in ``subresources``, not resources of their own."""

    group: str
    version: str
    name: str
    """The plural: ``replicasets``."""
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``replicasets.apps``, or ``pods`` for the core group."""
        return f"{self.name}.{self.group}" if self.group else self.name

    def supports(self, *verbs: str) -> bool:
        return all(verb in self.verbs for verb in verbs)

    def as_kind(self) -> Kind[Object]:
        """The ``Kind`` for requests of the client; use ``.metadata``, ``.raw`` or ``.read_as`` as needed."""
        return Kind(self.group, self.version, self.name, self.kind, self.namespaced, Object)


class GroupVersion(msgspec.Struct, frozen=True):
    """A group version with its resources, in the server's order."""

    group: str
    version: str
    resources: tuple[Resource, ...] = ()

    @property
    def name(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Discovery(msgspec.Struct, frozen=True):
    """The served resources at one time."""

    versions: tuple[GroupVersion, ...]
    """In the server's order: the first version of a group is the preferred one."""
    failures: dict[str, str] = {}
    """Group versions (``metrics.k8s.io/v1beta1``) that could not be fetched, and the errors."""

    def resources(self) -> list[Resource]:
        """Every resource in every version."""
        return [resource for version in self.versions for resource in version.resources]

    def preferred_resources(self) -> list[Resource]:
        """Every resource once, in its group's preferred version, or in the first version that has it.

        As client-go's ``ServerPreferredResources``, which controllers of "every resource" use.
        """
        preferred: dict[tuple[str, str], Resource] = {}
        for resource in self.resources():
            preferred.setdefault((resource.group, resource.name), resource)
        return list(preferred.values())

    def preferred_for(self, group: str, kind: str) -> list[Resource]:
        """The preferred resources with objects of that kind, for callers without a version."""
        return [res for res in self.preferred_resources() if (res.group, res.kind) == (group, kind)]

    def find(self, api_version: str, kind: str) -> Resource | None:
        """The resource with objects of that apiVersion and kind."""
        for version in self.versions:
            if version.name == api_version:
                for resource in version.resources:
                    if resource.kind == kind:
                        return resource
        return None

    def hint(self, api_version: str, kind: str) -> str:
        """``hint_of_kind`` for a kind that is not served."""
        served = [(resource.api_version, resource.kind, resource.name) for resource in self.resources()]
        return hint_of_kind(served, api_version, kind)

    def serves(self, kind: Kind[Any]) -> bool:
        """Whether the server has this resource in this version."""
        return any(
            resource.name == kind.resource
            for version in self.versions
            if version.name == kind.api_version
            for resource in version.resources
        )


def hint_of_kind(served: Iterable[tuple[str, str, str]], api_version: str, kind: str) -> str:
    """`` (did you mean apps/v1 Deployment?)`` for a kind that is not served in this version, or an empty text.

    ``served`` has apiVersion, kind and plural of what is served: the same kind in another version comes first, then
    this kind in other words (``pods``), then a similar one, of this version before all.
    """
    by_name: dict[str, list[tuple[str, str]]] = {}
    for version, known, plural in served:
        for name in {known.lower(), plural}:
            by_name.setdefault(name, []).append((version, known))
    of_version = [name for name, kinds in by_name.items() if any(version == api_version for version, _kind in kinds)]
    wanted = kind.lower()
    similar = wanted if wanted in by_name else flags.closest(wanted, of_version) or flags.closest(wanted, list(by_name))
    if not similar:
        return ""
    nearest = min(by_name[similar], key=lambda candidate: (candidate[0] != api_version, candidate[1] != kind))
    return f" (did you mean {' '.join(nearest)}?)"
