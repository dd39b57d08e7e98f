"""Matches writes with webhooks and policies: rules, namespace selectors, object selectors.

After k8s.io/apiserver ``pkg/admission/plugin/{policy/matching,webhook/predicates}`` and
``pkg/admission/plugin/webhook/generic/webhook.go`` (v0.36).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, new_forbidden
from pilothouse.apiserver.admission.dynamic.configurations import Configurations
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.labels import EVERYTHING, Selector, SelectorError, selector_from

_ANY = "*"


def may_match(write: AdmissionAttributes, exempt: Collection[tuple[str, str]], *caches: Configurations[Any]) -> bool:
    """Whether each cache has objects and the resource is not in ``exempt``. Rejects the write until the caches have
    synced."""
    if (write.info.group, write.info.resource) in exempt:
        return False
    if not all(cache.has_synced for cache in caches):
        raise new_forbidden(write, "not yet ready to handle request")
    return all(caches)


def _selector(selector: Any) -> Selector | SelectorError:
    """The parsed selector; an absent one selects everything, like the default ``{}``."""
    try:
        return selector_from(msgspec.convert(selector, LabelSelector)) if selector else EVERYTHING
    except SelectorError as error:
        return error  # reported for writes that match the rules


class MatchCriteria:
    """The match criteria of a webhook, policy or binding."""

    def __init__(
        self,
        rules: Iterable[Mapping[str, Any]],
        excluded: Iterable[Mapping[str, Any]] = (),
        *,
        namespaces: Any = None,
        objects: Any = None,
        policy: str = "Equivalent",
        is_binding: bool = False,
    ) -> None:
        self._rules, self._excluded = tuple(rules), tuple(excluded)
        self._namespaces, self._objects = _selector(namespaces), _selector(objects)
        self._equivalent = policy != "Exact"
        self._without_rules = is_binding

    @staticmethod
    def of_match_resources(constraints: Mapping[str, Any], *, is_binding: bool = False) -> "MatchCriteria":
        """The criteria of a ``MatchResources``. In a binding, no rules match every resource."""
        return MatchCriteria(
            constraints.get("resourceRules") or (),
            constraints.get("excludeResourceRules") or (),
            namespaces=constraints.get("namespaceSelector"),
            objects=constraints.get("objectSelector"),
            policy=constraints.get("matchPolicy") or "Equivalent",
            is_binding=is_binding,
        )

    def match(self, core: Core, write: AdmissionAttributes) -> ResourceInfo | None:
        """The version of the resource in which the write matches; None if it does not match.

        Raises ``StatusError`` if a selector is invalid or the namespace does not exist, and the write matches
        otherwise.
        """
        matching_info = self._resource(core, write)
        if matching_info is None:
            return None
        first_error: StatusError | None = None
        for matches in (self._namespace_matches, self._object_matches):
            try:
                if not matches(core, write):
                    return None
            except StatusError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return matching_info

    def _resource(self, core: Core, write: AdmissionAttributes) -> ResourceInfo | None:
        if any(_rule_matches(rule, write, write.info) for rule in self._excluded):
            return None
        if not self._rules and self._without_rules:
            return write.info
        if any(_rule_matches(rule, write, write.info) for rule in self._rules):
            return write.info
        if not self._equivalent:
            return None
        equivalents = _equivalent_resources(core, write.info)
        if any(_rule_matches(rule, write, info) for info in equivalents for rule in self._excluded):
            return None
        return next((info for rule in self._rules for info in equivalents if _rule_matches(rule, write, info)), None)

    def _namespace_matches(self, core: Core, write: AdmissionAttributes) -> bool:
        if self._namespaces == EVERYTHING or not (write.namespace or _is_namespace(write)):
            return True
        return _valid_selector(self._namespaces).matches(_namespace_labels(core, write))

    def _object_matches(self, _core: Core, write: AdmissionAttributes) -> bool:
        if self._objects == EVERYTHING:
            return True
        matches = _valid_selector(self._objects).matches
        return any(obj is not None and matches(_labels(obj)) for obj in (write.obj, write.old))


def _valid_selector(selector: Selector | SelectorError) -> Selector:
    if isinstance(selector, SelectorError):
        raise errors.internal(str(selector))
    return selector


def _is_namespace(write: AdmissionAttributes) -> bool:
    return write.info.resource == "namespaces" and not write.info.group


def _labels(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return labels


def _namespace_labels(core: Core, write: AdmissionAttributes) -> dict[str, str]:
    """The labels that a namespace selector matches: for a write of a Namespace its new labels."""
    if _is_namespace(write) and not write.subresource and write.obj is not None:
        return _labels(write.obj)
    name = write.name if _is_namespace(write) else write.namespace
    record = core.namespace(name)
    if record is None:
        raise errors.namespace_not_found(name)
    return _labels(decode(record.value))


def _equivalent_resources(core: Core, info: ResourceInfo) -> list[ResourceInfo]:
    """The other groups and versions in which the same objects are served (``EquivalentResourceMapper``)."""
    return [equivalent for equivalent in core.table if equivalent is not info and equivalent.prefix == info.prefix]


def _rule_matches(rule: Mapping[str, Any], write: AdmissionAttributes, info: ResourceInfo) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _any_of(rule.get("operations"), write.operation)
        and _any_of(rule.get("apiGroups"), info.group)
        and _any_of(rule.get("apiVersions"), info.version)
        and _scope_matches(rule.get("scope") or _ANY, write)
        and any(
            _resource_matches(rule_resource, info.resource, write.subresource)
            for rule_resource in rule.get("resources") or ()
        )
        and (not names or write.name in names)
    )


def _any_of(values: Any, value: str) -> bool:
    return any(allowed in (_ANY, value) for allowed in values or ())


def _scope_matches(scope: str, write: AdmissionAttributes) -> bool:
    if scope == "Namespaced":
        return bool(write.namespace) and not _is_namespace(write)
    if scope == "Cluster":
        return not write.namespace or _is_namespace(write)
    return True


def _resource_matches(rule_resource: str, resource: str, subresource: str) -> bool:
    main, _, sub = rule_resource.partition("/")
    return main in (_ANY, resource) and sub in (subresource, _ANY)
