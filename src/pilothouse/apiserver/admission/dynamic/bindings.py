"""Where policies apply, and with which parameters: what validating and mutating policies share.

After k8s.io/apiserver ``pkg/admission/plugin/policy/generic`` (v0.36).
"""

from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.admission.dynamic.matching import Criteria
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.labels import selector_from


class Binding:
    """Where a policy applies, with which parameters, and what follows."""

    def __init__(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.policy: str = spec.get("policyName") or ""
        self.param_ref: Object | None = spec.get("paramRef")
        self.actions: list[str] = spec.get("validationActions") or []
        matched = spec.get("matchResources")
        self.criteria = Criteria.of_constraints(matched, without_rules=True) if matched is not None else None


class Bound(msgspec.Struct, frozen=True):
    """A policy is to be evaluated for this binding with these parameters, None without any."""

    info: ResourceInfo
    """The version of the resource that the policy is about."""
    binding: Binding
    parameters: Object | None


class Misconfigured(msgspec.Struct, frozen=True):
    """A policy cannot be evaluated for the binding of this name; "" stands for all of them."""

    binding: str
    message: str


class Decision(msgspec.Struct, frozen=True):
    """One reason to reject a write; ``kind`` is what its text calls a policy."""

    kind: str
    policy: str
    binding: str
    message: str
    reason: str = "Invalid"

    @property
    def text(self) -> str:
        """What the client gets to read."""
        by = f" with binding '{self.binding}'" if self.binding else ""
        return f"{self.kind} '{self.policy}'{by} denied request: {self.message}"


def by_policy(bindings: Iterable[Binding]) -> dict[str, list[Binding]]:
    """The bindings by the names of their policies."""
    found: dict[str, list[Binding]] = {}
    for binding in bindings:
        found.setdefault(binding.policy, []).append(binding)
    return found


async def bound(
    core: Core, write: AdmissionAttributes, criteria: Criteria, param_kind: Object | None, bindings: Iterable[Binding]
) -> AsyncIterator[Bound | Misconfigured]:
    """What a policy is to be evaluated with for this write, in the order of its bindings; nothing where it is not about
    the write. The parameters of a binding are looked up when it is its turn."""
    try:
        info = criteria.match(core, write)
        if info is None:
            return
        if param_kind is not None:
            _parameter_resource(core, param_kind)
    except (StatusError, _ParameterError) as error:
        yield Misconfigured("", f"failed to configure policy: {error}")
        return
    for binding in bindings:
        try:
            if binding.criteria is not None and binding.criteria.match(core, write) is None:
                continue
            parameters = await _find_parameters(core, param_kind, binding.param_ref, write.namespace)
        except (StatusError, _ParameterError) as error:
            yield Misconfigured(binding.name, f"failed to configure binding: {error}")
            continue
        for found in parameters:
            yield Bound(info, binding, found)


class _ParameterError(ValueError):
    """Parameters that cannot be had."""


async def _find_parameters(
    core: Core, kind: Object | None, ref: Object | None, namespace: str
) -> Sequence[Object | None]:
    """The objects to evaluate with: one None when there are no parameters. Raises ``_ParameterError``, and
    ``StatusError`` for what cannot be converted."""
    if kind is None or ref is None:
        return [None]
    info = _parameter_resource(core, kind)
    parameter_namespace = ref.get("namespace") or ""
    if info.namespaced:
        parameter_namespace = parameter_namespace or namespace
        if not parameter_namespace:
            raise _ParameterError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif parameter_namespace:
        raise _ParameterError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    found: list[Object] = []
    if ref.get("name"):
        record = core.store.staged(info.key(parameter_namespace, ref["name"]))
        if record is not None:
            found.append(decode(await core.shown(info, record.value)))
    elif ref.get("selector") is not None:
        matches = selector_from(msgspec.convert(ref["selector"], LabelSelector)).matches
        records = core.store.list(info.list_prefix(parameter_namespace)).records
        for value in await core.shown_all(info, [record.value for record in records]):
            obj = decode(value)
            if matches(obj["metadata"].get("labels") or {}):
                found.append(obj)
    else:
        raise _ParameterError("one of name or selector must be provided")
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise _ParameterError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _parameter_resource(core: Core, kind: Object) -> ResourceInfo:
    """What holds the parameters of a policy. Raises ``_ParameterError``."""
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    for info in core.table:
        if info.api_version == version and info.kind == name:
            return info
    raise _ParameterError(f"failed to find resource referenced by paramKind: '{version}, Kind={name}'")
