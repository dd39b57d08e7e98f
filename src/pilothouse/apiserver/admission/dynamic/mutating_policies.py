"""The plugin MutatingAdmissionPolicy: mutates objects with CEL expressions.

After k8s.io/apiserver ``pkg/admission/plugin/policy/mutating`` (v0.36). An apply configuration is merged as by
server-side apply, without managed fields. A policy with ``reinvocationPolicy: IfNeeded`` is evaluated again, once, if
any policy has mutated the object, itself included, or another plugin has changed it afterwards.
"""

import copy
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, Reinvocation, new_forbidden
from pilothouse.apiserver.admission.dynamic.bindings import (
    Binding,
    Decision,
    PolicyInvocation,
    bindings_by_policy,
    policy_invocations,
)
from pilothouse.apiserver.admission.dynamic.configurations import EXEMPT_FROM_POLICIES, Configurations
from pilothouse.apiserver.admission.dynamic.expressions import (
    Activation,
    Expression,
    MatchConditions,
    Scope,
    versioned_attributes,
)
from pilothouse.apiserver.admission.dynamic.matching import MatchCriteria, may_match
from pilothouse.apiserver.admission.dynamic.object_replacement import estimated_size, replace_object
from pilothouse.apiserver.admission.dynamic.requests import NotConverted, convert, converted
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.metrics.admission import NO_ERROR, error_type
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.managed_fields import with_decoded_managed_fields
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.cel.initializers import initializers_as_maps, is_object, type_errors, without_types
from pilothouse.cel.limits import Budget, OutOfBudget
from pilothouse.cel.scopes import ExpressionError
from pilothouse.machinery import merge_types
from pilothouse.machinery.field_merge import merge
from pilothouse.machinery.field_walks import all_errors, error_text
from pilothouse.machinery.json_patch import TEST_FAILED, apply_json_patch
from pilothouse.machinery.merge_types import MergeType
from pilothouse.machinery.patches import PatchError


class Policy:
    """A MutatingAdmissionPolicy with its expressions, which are compiled on first use."""

    def __init__(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self.reinvoke = spec.get("reinvocationPolicy") == "IfNeeded"
        self.param_kind: Object | None = spec.get("paramKind")
        self.criteria = MatchCriteria.of_match_resources(spec.get("matchConstraints") or {})
        params = self.param_kind is not None
        self.conditions = MatchConditions(Scope(params=params), spec.get("matchConditions") or ())
        scope = Scope(params=params, variables=spec.get("variables") or ())
        self.mutations = [_Mutation(scope, mutation) for mutation in spec.get("mutations") or ()]


class _Mutation:
    """One of ``spec.mutations``."""

    def __init__(self, scope: Scope, mutation: Object) -> None:
        self.is_json_patch = mutation.get("patchType") == "JSONPatch"
        text = (mutation.get("jsonPatch" if self.is_json_patch else "applyConfiguration") or {}).get("expression") or ""
        rewritten, self._types = initializers_as_maps(text)
        self._expression = Expression(scope, text, (), rewritten=rewritten)

    async def evaluate(self, activation: Activation) -> Any:
        """The apply configuration or JSON patch. Raises ``ExpressionError``."""
        try:
            return await self._expression.evaluate(activation, Budget())
        except OutOfBudget as error:
            raise ExpressionError(str(error)) from None

    def apply(self, obj: Object, value: Any, info: ResourceInfo) -> Object:
        """The object mutated by the value of the expression, as a copy. Raises ``ExpressionError``."""
        obj = copy.deepcopy(obj)
        operations = value if self.is_json_patch and isinstance(value, list) else ()
        objects = [operation.get("value") for operation in operations if isinstance(operation, dict)] or [value]
        if mismatches := [error for item in objects if is_object(item) for error in type_errors(item, self._types)]:
            raise ExpressionError("type mismatch: " + "\n".join(mismatches))
        value = without_types(value)
        if self.is_json_patch:
            return self._apply_json_patch(obj, value)
        if not isinstance(value, dict):
            raise ExpressionError("invalid return type: an ApplyConfiguration expression must evaluate to Object")
        type_ = _type_of(obj, info)
        field_errors = all_errors({**value, "kind": obj["kind"], "apiVersion": obj["apiVersion"]}, type_)
        if field_errors:
            raise _not_typed(error_text(field_errors))
        atomics = _atomic_paths(value, type_, "")
        if atomics:
            paths = ", ".join(atomics)
            reason = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}"
            raise ExpressionError(f"error applying patch: {reason}")
        return merge(obj, {**value, "kind": obj["kind"], "apiVersion": obj["apiVersion"]}, type_)

    @staticmethod
    def _apply_json_patch(obj: Object, value: Any) -> Object:
        if not isinstance(value, list) or not all(isinstance(operation, dict) for operation in value):
            raise ExpressionError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
        try:
            patched: Object = apply_json_patch(copy.deepcopy(obj), value)
        except PatchError as error:
            if error.detail.endswith(TEST_FAILED):
                return obj  # a patch whose test fails is not applied
            raise ExpressionError(f"JSON Patch: {error.detail}") from None
        return patched


def _type_of(obj: Object, info: ResourceInfo) -> MergeType:
    if obj["kind"] == info.kind:
        if info.custom is not None:
            return merge_types.of_structural(info.custom.openapi)
        merge_type = merge_types.of_kind(info.group, info.version, info.kind)
        assert merge_type is not None, "every built-in kind has a schema"
        return merge_type
    group, _slash, version = obj["apiVersion"].rpartition("/")
    of_subresource = merge_types.of_kind(group, version, obj["kind"]) if group == info.group else None
    if of_subresource is None:
        # Upstream has the types of the resource's group version.
        raise _not_typed(f"no corresponding type for {obj['apiVersion']}, Kind={obj['kind']}")
    return of_subresource


def _not_typed(reason: str) -> ExpressionError:
    return ExpressionError(f"error applying patch: failed to convert patch object to typed object: {reason}")


def _atomic_paths(value: Any, type_: MergeType, path: str) -> list[str]:
    """The paths at which an apply configuration would replace an atomic list, map or struct."""
    paths: list[str] = []
    if isinstance(value, dict) and type_.map is not None:
        if type_.map.atomic:
            paths.append(path)
        for name, member in value.items():
            member_type = type_.map.fields.get(name)
            if member_type is not None:
                paths += _atomic_paths(member, member_type, f"{path}.{name}")
    elif isinstance(value, list) and type_.list is not None:
        if not type_.list.associative:
            paths.append(path)
        for position, item in enumerate(value):
            paths += _atomic_paths(item, type_.list.element, f"{path}[{position}]")
    return paths


class MutatingAdmissionPolicy(Plugin):
    """Evaluates the policies that have bindings, in the order of their names."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._policies = Configurations(core, "mutatingadmissionpolicies", Policy)
        self._bindings = Configurations(core, "mutatingadmissionpolicybindings", Binding)

    def admit(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        return self._admit(write) if self._may_match(write) else None

    def reinvoke(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        reinvocation = write.reinvocation(self.name)
        return self._reinvoke(write, reinvocation) if reinvocation is not None else None

    def _may_match(self, write: AdmissionAttributes) -> bool:
        return write.obj is not None and may_match(write, EXEMPT_FROM_POLICIES, self._policies, self._bindings)

    async def _admit(self, write: AdmissionAttributes) -> None:
        reinvocation = write.new_reinvocation(self.name)
        if await self._run(write, reinvocation, again=False):
            reinvocation.require()
            write.should_reinvoke = True
        assert write.obj is not None, "only writes with an object are mutated"
        reinvocation.end(with_decoded_managed_fields(write.obj))

    async def _reinvoke(self, write: AdmissionAttributes, reinvocation: Reinvocation) -> None:
        assert write.obj is not None, "only writes with an object are mutated"
        reinvocation.begin_again(with_decoded_managed_fields(write.obj))
        if reinvocation.required:
            await self._run(write, reinvocation, again=True)

    async def _run(self, write: AdmissionAttributes, reinvocation: Reinvocation, *, again: bool) -> bool:
        """Evaluate the policies, or those that are required ``again``; returns whether any has mutated the object, even
        to the same one."""
        bindings = bindings_by_policy(self._bindings.all)
        failures: list[Decision] = []
        mutated = False
        for policy in self._policies.all:
            if policy.name in bindings and (policy.reinvoke or not again):
                mutated |= await self._apply(write, policy, bindings[policy.name], failures, reinvocation, again=again)
        if failures:
            raise _status_error(write, failures)
        return mutated

    async def _apply(
        self,
        write: AdmissionAttributes,
        policy: Policy,
        bindings: list[Binding],
        failures: list[Decision],
        reinvocation: Reinvocation,
        *,
        again: bool,
    ) -> bool:
        """Apply the policy; returns whether a mutation was applied. Errors are appended to ``failures``, except with
        ``failurePolicy: Ignore``."""

        def add_failure(binding: str, message: str, reason: str = "") -> None:
            if not policy.ignores_failures:
                failures.append(Decision("policy", policy.name, binding, message, reason))

        mutated = False
        async for invocation in policy_invocations(self._core, write, policy.criteria, policy.param_kind, bindings):
            if not isinstance(invocation, PolicyInvocation):
                add_failure(invocation.binding, invocation.message)
                continue

            def add_invalid(error: ExpressionError, name: str = invocation.binding.name) -> None:
                add_failure(name, str(error), "Invalid")

            key = _key(policy, invocation)
            try:
                if not await self._is_met(write, policy, invocation) or (again and key not in reinvocation.required):
                    continue
                applied, changed = await self._mutate(write, policy, invocation, add_invalid)
                mutated |= applied
                if changed:
                    reinvocation.require()
                if policy.reinvoke:
                    reinvocation.invoked(key)
            except ExpressionError as error:
                add_invalid(error)
            except NotConverted as error:
                add_failure(
                    invocation.binding.name,
                    f"failed to configure binding: failed to convert object version: {error.conversion_error}",
                )
        return mutated

    async def _is_met(self, write: AdmissionAttributes, policy: Policy, invocation: PolicyInvocation) -> bool:
        """Whether the match conditions are met."""
        attributes = await versioned_attributes(self._core, write, invocation.info)
        return await policy.conditions.match(Activation(attributes, invocation.param))

    async def _mutate(
        self,
        write: AdmissionAttributes,
        policy: Policy,
        invocation: PolicyInvocation,
        add_invalid: Callable[[ExpressionError], None],
    ) -> tuple[bool, bool]:
        """Returns whether a mutation was applied, and whether the object has changed. As upstream, the mutations after
        a failed one are evaluated too."""
        info, param, work = invocation.info, invocation.param, self._core.long_work
        applied = changed = False
        for mutation in policy.mutations:
            # Each mutation is evaluated on the result of the previous one.
            activation = Activation(await versioned_attributes(self._core, write, info), param)
            obj = await converted(self._core, write, write.obj, info)
            assert obj is not None, "only writes with an object are mutated"
            try:
                with self._observed(policy.name, invocation.binding.name):
                    value = await mutation.evaluate(activation)
                    mutated = await work.run(estimated_size(obj, value), mutation.apply, obj, value, info)
            except ExpressionError as error:
                add_invalid(error)
                continue
            if info is not write.info:
                mutated = await convert(self._core, info, write.info, mutated)
            strict, size = mutation.is_json_patch, estimated_size(mutated)
            applied = True
            changed |= await work.run(size, replace_object, self._core, write, mutated, strict=strict)
        return applied, changed

    @contextmanager
    def _observed(self, policy: str, binding: str) -> Iterator[None]:
        """Record metrics for the mutation in this block, if metrics are served."""
        metrics, clock = self._core.metrics, self._core.env.perf_counter
        if metrics is None:
            yield
            return
        started_at, error = clock(), NO_ERROR
        try:
            yield
        except ExpressionError as failure:
            error = error_type(str(failure))
            raise
        finally:
            metrics.policies.mutated(policy, binding, error, clock() - started_at)


def _key(policy: Policy, invocation: PolicyInvocation) -> tuple[str, ...]:
    meta = (invocation.param or {}).get("metadata") or {}
    return policy.name, invocation.binding.name, meta.get("namespace") or "", meta.get("name") or ""


def _status_error(write: AdmissionAttributes, failures: list[Decision]) -> errors.StatusError:
    """A 403 with the first failure as message and all failures as causes (``policy_dispatcher.go``)."""
    error = new_forbidden(write, "")
    details = {**(error.details or {}), "causes": [{"message": failure.text} for failure in failures]}
    return errors.StatusError(403, failures[0].reason or "Forbidden", failures[0].text, details=details)
