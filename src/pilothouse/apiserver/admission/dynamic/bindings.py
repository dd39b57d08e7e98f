"""Bindings and params of validating and mutating admission policies.

After k8s.io/apiserver ``pkg/admission/plugin/policy/generic/policy_dispatcher.go`` (v0.36).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.admission.dynamic.matching import MatchCriteria
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.labels import selector_from

_BYTES_PER_TURN = 64 * 1024


class _Labeled(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Selected(msgspec.Struct, gc=False):
    """What a selector of params reads of them."""

    metadata: _Labeled


_read_labels = msgspec.json.Decoder(_Selected).decode


class Binding:
    """A ValidatingAdmissionPolicyBinding or MutatingAdmissionPolicyBinding."""

    def __init__(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.policy: str = spec.get("policyName") or ""
        self.param_ref: Object | None = spec.get("paramRef")
        self.actions: list[str] = spec.get("validationActions") or []
        matched = spec.get("matchResources")
        self.criteria = MatchCriteria.of_match_resources(matched, is_binding=True) if matched is not None else None


class PolicyInvocation(msgspec.Struct, frozen=True):
    """One evaluation of a policy: for this binding, with this param (None if there are no params)."""

    info: ResourceInfo
    """The version of the resource that the policy matched."""
    binding: Binding
    param: Object | None


class PolicyError(msgspec.Struct, frozen=True):
    """The policy cannot be evaluated for the binding of this name, or for any if the name is ""."""

    binding: str
    message: str


class Decision(msgspec.Struct, frozen=True):
    """A denial of a write by a policy. ``kind`` is the kind of the policy as in upstream's message."""

    kind: str
    policy: str
    binding: str
    message: str
    reason: str = "Invalid"

    @property
    def text(self) -> str:
        """The message for the client."""
        with_binding = f" with binding '{self.binding}'" if self.binding else ""
        return f"{self.kind} '{self.policy}'{with_binding} denied request: {self.message}"


def bindings_by_policy(bindings: Iterable[Binding]) -> dict[str, list[Binding]]:
    """Policy name → its bindings."""
    by_policy: dict[str, list[Binding]] = {}
    for binding in bindings:
        by_policy.setdefault(binding.policy, []).append(binding)
    return by_policy


async def policy_invocations(
    core: Core,
    write: AdmissionAttributes,
    criteria: MatchCriteria,
    param_kind: Object | None,
    bindings: Iterable[Binding],
) -> AsyncIterator[PolicyInvocation | PolicyError]:
    """Yield the invocations of a policy for this write, in the order of its bindings; none if the policy does not match
    the write. The params of a binding are looked up just before its invocations, and each is decoded just before its
    own, since they may be large together."""
    try:
        info = criteria.match(core, write)
        if info is None:
            return
        if param_kind is not None:
            _param_resource(core, param_kind)
    except (StatusError, _ParamError) as error:
        yield PolicyError("", f"failed to configure policy: {error}")
        return
    is_first = True
    for binding in bindings:
        try:
            if binding.criteria is not None and binding.criteria.match(core, write) is None:
                continue
            params = await _collect_params(core, param_kind, binding.param_ref, write.namespace)
        except (StatusError, _ParamError) as error:
            yield PolicyError(binding.name, f"failed to configure binding: {error}")
            continue
        for param in params:
            if not is_first:
                await asyncio.sleep(0)  # a selector may select thousands of params: other tasks run in between
            is_first = False
            yield PolicyInvocation(info, binding, None if param is None else decode(param))


class _ParamError(ValueError):
    """The params of a binding cannot be found."""


async def _collect_params(
    core: Core, param_kind: Object | None, param_ref: Object | None, namespace: str
) -> Sequence[bytes | None]:
    """The encoded params of a binding (``CollectParams``); ``[None]`` for a policy or binding without params. Raises
    ``_ParamError``, and ``StatusError`` if a param cannot be converted."""
    if param_kind is None or param_ref is None:
        return [None]
    info = _param_resource(core, param_kind)
    param_namespace = param_ref.get("namespace") or ""
    if info.namespaced:
        param_namespace = param_namespace or namespace
        if not param_namespace:
            raise _ParamError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    elif param_namespace:
        raise _ParamError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    params: list[bytes] = []
    if param_ref.get("name"):
        record = core.store.staged(info.key(param_namespace, param_ref["name"]))
        if record is not None:
            params.append(await core.from_storage(info, record.value))
    elif param_ref.get("selector") is not None:
        matches = selector_from(msgspec.convert(param_ref["selector"], LabelSelector)).matches
        records = core.store.list(info.list_prefix(param_namespace)).records
        size = 0
        for value in await core.list_from_storage(info, [record.value for record in records]):
            if matches(_read_labels(value).metadata.labels or {}):
                params.append(value)
            size += len(value)
            if size >= _BYTES_PER_TURN:
                size = 0
                await asyncio.sleep(0)  # let other requests run
    else:
        raise _ParamError("one of name or selector must be provided")
    if not params and param_ref.get("parameterNotFoundAction") == "Deny":
        raise _ParamError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return params


def _param_resource(core: Core, kind: Object) -> ResourceInfo:
    """The resource of a ``paramKind``. Raises ``_ParamError``."""
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    for info in core.table:
        if info.api_version == version and info.kind == name:
            return info
    raise _ParamError(f"failed to find resource referenced by paramKind: '{version}, Kind={name}'")
