"""Authorization modes AlwaysAllow and RBAC, and their union.

Follows kubernetes' ``plugin/pkg/auth/authorizer/rbac/rbac.go`` and ``pkg/registry/rbac/validation/rule.go`` (v1.36).
Roles and bindings are read from storage and cached, compiled, until one of them changes.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from pilothouse.apiserver.authentication.identity import MASTERS, Identity
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.request_info import RequestInfo

T = TypeVar("T")
RBAC_GROUP = "rbac.authorization.k8s.io"
ROLE_RESOURCES = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
"""Matches every verb, group, resource or path."""
_SELECTING = ("list", "watch", "deletecollection")
_MAX_CACHED_DECISIONS = 10_000
MAX_RULES = 50_000
"""How many rules of a user in a namespace are considered, ones with many members several times. Upstream considers all,
in a thread of its own."""
_TOO_MANY_RULES = f"only the first {MAX_RULES} rules of the user are considered"
_MAX_CACHED_LENGTH = 1024
"""The number of cached decisions, and the maximum length of a cached question in characters: 10 MB in all."""


class Attributes(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a request. Non-resource requests only have ``path`` and ``verb``."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    """The field selector of lists, watches and deletecollections, as sent; not that of watches by the deprecated
    ``watch/`` prefix. RBAC ignores it."""

    @staticmethod
    def of(info: RequestInfo) -> "Attributes":
        """The attributes of a request."""
        if not info.resource_request:
            return Attributes(info.verb, path=info.path)
        selects = info.verb in _SELECTING and not info.watch_prefix
        selector = info.query.first("fieldSelector") if selects else ""
        return Attributes(
            info.verb,
            info.group,
            info.version,
            info.resource,
            info.subresource,
            info.namespace,
            info.name,
            field_selector=selector,
        )

    @property
    def full_resource(self) -> str:
        """``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Whether a request is allowed, and the reason; denials include roles that could not be found.

    ``error`` is set if an authorizer failed; those in this module never fail.
    """

    allowed: bool
    reason: str = ""
    error: str = ""


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """A ``PolicyRule``."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    @property
    def cost(self) -> int:
        """What a comparison costs: its lists may have thousands of members."""
        members = len(self.verbs) + len(self.api_groups) + len(self.resources) + len(self.resource_names)
        return 1 + (members + len(self.non_resource_urls)) // 32

    def allows(self, attributes: Attributes) -> bool:
        """Whether this rule allows the request."""
        if "*" not in self.verbs and attributes.verb not in self.verbs:
            return False
        if attributes.path:
            return any(_path_matches(url, attributes.path) for url in self.non_resource_urls)
        return (
            ("*" in self.api_groups or attributes.group in self.api_groups)
            and self._covers(attributes)
            and (not self.resource_names or attributes.name in self.resource_names)
        )

    def _covers(self, attributes: Attributes) -> bool:
        resources = self.resources
        if "*" in resources or attributes.full_resource in resources:
            return True
        return bool(attributes.subresource) and f"*/{attributes.subresource}" in resources


def _path_matches(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1]))


class Authorizer(Protocol):
    """Authorizes requests (``authorizer.RuleResolvingAuthorizer``)."""

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        """Whether the user may make this request."""
        ...


class ResolvedRules(NamedTuple):
    """The rules of a user, and the errors of those that could not be resolved. ``incomplete``: the user may have others
    that cannot be listed."""

    rules: Sequence[Rule]
    errors: Sequence[str] = ()
    incomplete: bool = False

    @property
    def error(self) -> str:
        """The errors as one text, or ""."""
        return _aggregate_errors(self.errors)


class RuleResolver(Protocol):
    """Lists the rules of a user (``authorizer.RuleResolver``)."""

    def rules(self, identity: Identity, namespace: str) -> ResolvedRules:
        """The rules of a user in a namespace, and for non-resource URLs."""
        ...


class RuleResolvingAuthorizer(Authorizer, RuleResolver, Protocol):
    """Can also list the rules of a user."""


_EVERYTHING = [
    Rule(verbs=("*",), api_groups=("*",), resources=("*",)),
    Rule(verbs=("*",), non_resource_urls=("*",)),
]


class AlwaysAllow:
    """``--authorization-mode=AlwaysAllow``."""

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        """Allow."""
        return Decision(allowed=True)

    def rules(self, identity: Identity, namespace: str) -> ResolvedRules:
        """Everything is allowed."""
        return ResolvedRules(_EVERYTHING)


class _Subject(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _RoleRef(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Binding(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta
    role_ref: _RoleRef = _RoleRef()
    subjects: tuple[_Subject, ...] | None = None


class _StoredRole(msgspec.Struct, frozen=True):
    metadata: _Meta
    rules: msgspec.Raw = msgspec.Raw(b"null")


class _Role:
    """A role whose rules are decoded when they are needed: it may have 40,000, and be bound to nobody."""

    __slots__ = ("_rules", "_stored", "metadata")

    def __init__(self, stored: _StoredRole) -> None:
        self.metadata = stored.metadata
        self._stored = stored.rules
        self._rules: tuple[Rule, ...] | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """None are granted if they can't be decoded."""
        if self._rules is None:
            try:
                self._rules = _decode_rules(self._stored) or ()
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._rules = ()
        return self._rules


_decode_binding = msgspec.json.Decoder(_Binding).decode
_decode_stored_role = msgspec.json.Decoder(_StoredRole).decode
_decode_rules = msgspec.json.Decoder(tuple[Rule, ...] | None).decode


def _decode_role(value: bytes) -> _Role:
    return _Role(_decode_stored_role(value))


class _Granted(msgspec.Struct, frozen=True):
    """A rule of a user, and the binding that grants it."""

    rule: Rule
    reason: str


ListResource = Callable[[str], Iterable[bytes]]
"""All stored objects of one resource of the RBAC group."""


class Union:
    """Several authorizers in order: the first that allows decides. The reasons of the denials are joined."""

    def __init__(self, authorizers: Sequence[RuleResolvingAuthorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        """Whether one of them allows the request; system:masters is allowed everything before any of them is called."""
        if MASTERS in identity.groups:
            return Decision(allowed=True)
        reasons: list[str] = []
        for authorizer in self._authorizers:
            decision = authorizer.authorize(identity, attributes)
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(allowed=False, reason="\n".join(reasons))

    def rules(self, identity: Identity, namespace: str) -> ResolvedRules:
        """The rules of all of them."""
        resolved = [authorizer.rules(identity, namespace) for authorizer in self._authorizers]
        return ResolvedRules(
            [rule for item in resolved for rule in item.rules],
            [error for item in resolved for error in item.errors],
            any(item.incomplete for item in resolved),
        )


class RbacAuthorizer:
    """``--authorization-mode=RBAC``, preceded by system:masters.

    ``list_resource`` reads the stored objects of ``roles``, ``clusterroles``, ``rolebindings`` or
    ``clusterrolebindings``. The store has to call ``changed`` after each of their changes.
    """

    def __init__(self, list_resource: ListResource) -> None:
        self._list = list_resource
        self._known: _Compiled | None = None
        self._decoded = _Decoded()
        self._decisions: dict[tuple[str, tuple[str, ...], Attributes], Decision] = {}

    def changed(self) -> None:
        """Drop the compiled roles and bindings."""
        self._known = None
        self._decisions.clear()

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        """Whether a rule of a role bound to the user, or to one of the user's groups, allows the request."""
        if MASTERS in identity.groups:
            return Decision(allowed=True)
        key = (identity.user, identity.groups, attributes)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._authorize(identity, attributes)
            if _length(identity, attributes) <= _MAX_CACHED_LENGTH:
                if len(self._decisions) >= _MAX_CACHED_DECISIONS:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def _authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        errors: list[str] = []
        for granted in self._compiled().granted(identity, "" if attributes.path else attributes.namespace, errors):
            if granted.rule.allows(attributes):
                return Decision(allowed=True, reason=f"RBAC: allowed by {granted.reason}")
        return Decision(allowed=False, reason=f"RBAC: {_aggregate_errors(errors)}" if errors else "")

    def rules(self, identity: Identity, namespace: str) -> ResolvedRules:
        """The rules of every role bound to the user in the namespace. As upstream, they are complete although a role
        could not be resolved."""
        errors: list[str] = []
        rules = [granted.rule for granted in self._compiled().granted(identity, namespace, errors)]
        return ResolvedRules(rules, errors, incomplete=_TOO_MANY_RULES in errors)

    def role_rules(self, kind: str, namespace: str, name: str) -> list[Rule] | None:
        """The rules of a ``Role`` in the namespace or of a ``ClusterRole``; None if it does not exist."""
        return self._compiled().role_rules(kind, namespace, name)

    def _compiled(self) -> "_Compiled":
        if self._known is None:
            self._decoded = _Decoded(self._decoded)
            self._known = _Compiled(self._list, self._decoded)
        return self._known


def _length(identity: Identity, attributes: Attributes) -> int:
    return len(identity.user) + sum(map(len, identity.groups)) + sum(map(len, msgspec.structs.astuple(attributes)))


def _aggregate_errors(errors: Sequence[str]) -> str:
    """The text of upstream's ``NewAggregate``: each error once."""
    different = list(dict.fromkeys(errors))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]" if different else ""


class _Decoded:
    """Decoded roles and bindings by their stored values. Values that are still stored are taken from the previous
    state: mostly only one of thousands has changed."""

    def __init__(self, previous: "_Decoded | None" = None) -> None:
        self._previous: dict[tuple[Any, bytes], Any] = {} if previous is None else previous._values
        self._values: dict[tuple[Any, bytes], Any] = {}

    def of(self, decode: Callable[[bytes], T], values: Iterable[bytes]) -> Iterator[T]:
        """The decodable objects. Another program may have written others to etcd: they grant nothing, and do not affect
        the rest."""
        for value in values:
            decoded = self._previous.get((decode, value))
            if decoded is None:
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    decoded = decode(value)
            if decoded is not None:
                self._values[decode, value] = decoded
                yield decoded

    def close(self) -> None:
        """Forget the previous state."""
        self._previous = {}


class _Compiled:
    """Roles by name, and bindings by subject."""

    def __init__(self, list_resource: ListResource, decoded: _Decoded) -> None:
        cluster_roles = decoded.of(_decode_role, list_resource("clusterroles"))
        self._cluster_roles = {role.metadata.name: role for role in cluster_roles}
        roles = decoded.of(_decode_role, list_resource("roles"))
        self._roles = {(role.metadata.namespace, role.metadata.name): role for role in roles}
        self._cluster_bindings = _by_subject(decoded.of(_decode_binding, list_resource("clusterrolebindings")))
        self._bindings: dict[str, _BySubject] = {}
        by_namespace: dict[str, list[_Binding]] = {}
        for binding in decoded.of(_decode_binding, list_resource("rolebindings")):
            by_namespace.setdefault(binding.metadata.namespace, []).append(binding)
        for namespace, bindings in by_namespace.items():
            self._bindings[namespace] = _by_subject(bindings)
        decoded.close()

    def granted(self, identity: Identity, namespace: str, errors: list[str]) -> Iterator[_Granted]:
        """The rules of the user, cluster-wide ones first, up to ``MAX_RULES``. Failures to resolve roles are added to
        ``errors``."""
        cost = 0
        for granted in self._all_granted(identity, namespace, errors):
            cost += granted.rule.cost
            if cost > MAX_RULES:
                errors.append(_TOO_MANY_RULES)
                return
            yield granted

    def _all_granted(self, identity: Identity, namespace: str, errors: list[str]) -> Iterator[_Granted]:
        for binding, subject in _matching(self._cluster_bindings, identity):
            name = binding.role_ref.name
            reason = f'ClusterRoleBinding "{binding.metadata.name}" of ClusterRole "{name}" to {subject}'
            yield from self._rules(self._cluster_roles.get(name), f'clusterrole.{RBAC_GROUP} "{name}"', reason, errors)
        if not namespace:
            return
        for binding, subject in _matching(self._bindings.get(namespace, {}), identity):
            kind, name = binding.role_ref.kind, binding.role_ref.name
            role = self._cluster_roles.get(name) if kind == "ClusterRole" else self._roles.get((namespace, name))
            reason = f'RoleBinding "{binding.metadata.name}/{namespace}" of {kind} "{name}" to {subject}'
            yield from self._rules(role, f'{kind.lower()}.{RBAC_GROUP} "{name}"', reason, errors)

    def role_rules(self, kind: str, namespace: str, name: str) -> list[Rule] | None:
        """The rules of one role."""
        role = self._cluster_roles.get(name) if kind == "ClusterRole" else self._roles.get((namespace, name))
        return None if role is None else list(role.rules)

    @staticmethod
    def _rules(role: _Role | None, role_text: str, reason: str, errors: list[str]) -> Iterator[_Granted]:
        if role is None:
            errors.append(f"{role_text} not found")
            return
        for rule in role.rules:
            yield _Granted(rule, reason)


class _Applied(NamedTuple):
    """A binding and one of its subjects, both with their positions."""

    position: int
    subject_position: int
    binding: _Binding
    subject_text: str


_BySubject = Mapping[tuple[str, str], Sequence[_Applied]]


def _by_subject(bindings: Iterable[_Binding]) -> _BySubject:
    by_subject: dict[tuple[str, str], list[_Applied]] = {}
    for position, binding in enumerate(bindings):
        for subject_position, subject in enumerate(binding.subjects or ()):
            if subject.kind == "ServiceAccount":
                namespace = subject.namespace or binding.metadata.namespace
                key = ("User", f"system:serviceaccount:{namespace}:{subject.name}")
                subject_text = f'ServiceAccount "{subject.name}/{namespace}"'
            else:
                key = (subject.kind, subject.name)
                subject_text = f'{subject.kind} "{subject.name}"'
            applied = _Applied(position, subject_position, binding, subject_text)
            by_subject.setdefault(key, []).append(applied)
    return by_subject


def _matching(bindings: _BySubject, identity: Identity) -> Iterator[tuple[_Binding, str]]:
    """The bindings that apply to the user, in order, each once: with the first of its subjects that the user is."""
    applied = list(bindings.get(("User", identity.user), ()))
    for group in identity.groups:
        applied += bindings.get(("Group", group), ())
    last = -1
    for entry in sorted(applied, key=itemgetter(0, 1)):
        if entry.position != last:
            last = entry.position
            yield entry.binding, entry.subject_text


def forbidden(identity: Identity, attributes: Attributes, reason: str = "") -> StatusError:
    """403 with upstream's message."""
    if attributes.path:
        detail = _sanitize(f'User "{identity.user}" cannot {attributes.verb} path "{attributes.path}"')
        message, details = f"forbidden: {detail}", dict[str, Any]()
    else:
        scope = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
        detail = (
            f'User "{identity.user}" cannot {attributes.verb} resource "{attributes.full_resource}" '
            f'in API group "{attributes.group}" {scope}'
        )
        detail = _sanitize(detail)
        qualified = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
        subject = f'{qualified} "{attributes.name}"' if attributes.name else qualified
        message = f"{subject} is forbidden: {detail}"
        details = {}
        if attributes.name:
            details["name"] = attributes.name
        if attributes.group:
            details["group"] = attributes.group
        details["kind"] = attributes.resource
    if reason:
        message = f"{message}: {reason}"
    return StatusError(403, "Forbidden", message, details=details)


def _sanitize(text: str) -> str:
    """Escape HTML (``sanitizer`` in apiserver ``pkg/endpoints/handlers/responsewriters``)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
