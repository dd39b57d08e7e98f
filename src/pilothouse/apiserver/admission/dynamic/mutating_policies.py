"""MutatingAdmissionPolicy: CEL expressions that change written objects.

After k8s.io/apiserver ``pkg/admission/plugin/policy/mutating`` (v0.36). An apply configuration is merged as server-side
apply merges, without managed fields. A policy with ``reinvocationPolicy: IfNeeded`` is evaluated once more if the
object has changed after it.
"""

import copy
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.admission.dynamic.adopting import adopt
from pilothouse.apiserver.admission.dynamic.bindings import Binding, Bound, Decision, bound, by_policy
from pilothouse.apiserver.admission.dynamic.configurations import Configurations
from pilothouse.apiserver.admission.dynamic.expressions import (
    Condition,
    Inputs,
    MatchConditions,
    Scope,
    versioned_attributes,
)
from pilothouse.apiserver.admission.dynamic.matching import Criteria, may_concern
from pilothouse.apiserver.admission.dynamic.requests import NotConverted, convert, converted
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.metrics.admission import NO_ERROR, error_type
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.cel.initializers import as_maps
from pilothouse.cel.limits import Budget, OutOfBudget
from pilothouse.cel.scopes import ExpressionError
from pilothouse.machinery import merge_types
from pilothouse.machinery.field_merge import merge
from pilothouse.machinery.json_patch import apply_json_patch
from pilothouse.machinery.merge_types import MergeType
from pilothouse.machinery.patches import PatchError


class Policy:
    """A policy with its compiled expressions."""

    def __init__(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self.reinvoke = spec.get("reinvocationPolicy") == "IfNeeded"
        self.param_kind: Object | None = spec.get("paramKind")
        self.criteria = Criteria.of_constraints(spec.get("matchConstraints") or {})
        params = self.param_kind is not None
        self.conditions = MatchConditions(Scope(params=params), spec.get("matchConditions") or ())
        scope = Scope(params=params, variables=spec.get("variables") or ())
        self.mutations = [_Mutation(scope, given) for given in spec.get("mutations") or ()]


class _Mutation:
    """One of ``spec.mutations``."""

    def __init__(self, scope: Scope, given: Object) -> None:
        self.is_json_patch = given.get("patchType") == "JSONPatch"
        text = (given.get("jsonPatch" if self.is_json_patch else "applyConfiguration") or {}).get("expression") or ""
        self._condition = Condition(scope, text, (), rewritten=as_maps(text))

    async def apply(self, inputs: Inputs, obj: Object, info: ResourceInfo) -> Object:
        """The object after this mutation. Raises ``ExpressionError``."""
        try:
            value = await self._condition.evaluate(inputs, Budget())
        except OutOfBudget as error:
            raise ExpressionError(str(error)) from None
        if self.is_json_patch:
            return self._apply_json_patch(obj, value)
        if not isinstance(value, dict):
            raise ExpressionError("invalid return type: an ApplyConfiguration expression must evaluate to Object")
        type_ = _type_of(info)
        atomics = _atomic_paths(value, type_, "")
        if atomics:
            found = ", ".join(atomics)
            reason = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {found}"
            raise ExpressionError(f"error applying patch: {reason}")
        return merge(obj, {**value, "kind": obj["kind"], "apiVersion": obj["apiVersion"]}, type_)

    @staticmethod
    def _apply_json_patch(obj: Object, value: Any) -> Object:
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise ExpressionError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
        try:
            patched: Object = apply_json_patch(copy.deepcopy(obj), value)
        except PatchError as error:
            if any(one.get("op") == "test" for one in value):
                return obj  # a patch whose test fails is not applied
            raise ExpressionError(f"JSONPath: {error.message}") from None
        return patched


def _type_of(info: ResourceInfo) -> MergeType:
    if info.custom is not None:
        return merge_types.of_structural(info.custom.openapi)
    found = merge_types.of_kind(info.group, info.version, info.kind)
    assert found is not None, "every built-in kind has a schema"
    return found


def _atomic_paths(value: Any, type_: MergeType, path: str) -> list[str]:
    """The paths at which an apply configuration would replace an atomic list, map or struct."""
    found: list[str] = []
    if isinstance(value, dict) and type_.map is not None:
        if type_.map.atomic:
            found.append(path)
        for name, member in value.items():
            below = type_.map.fields.get(name)
            if below is not None:
                found += _atomic_paths(member, below, f"{path}.{name}")
    elif isinstance(value, list) and type_.list is not None:
        if not type_.list.associative:
            found.append(path)
        for position, item in enumerate(value):
            found += _atomic_paths(item, type_.list.element, f"{path}[{position}]")
    return found


class MutatingAdmissionPolicy(Plugin):
    """Runs the policies that are bound, in the order of their names."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._policies = Configurations(core, "mutatingadmissionpolicies", Policy)
        self._bindings = Configurations(core, "mutatingadmissionpolicybindings", Binding)

    def admit(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        return self._run(write, reinvocation=False) if self._may_concern(write) else None

    def reinvoke(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        return self._run(write, reinvocation=True) if self._may_concern(write) else None

    def _may_concern(self, write: AdmissionAttributes) -> bool:
        return write.obj is not None and may_concern(write, self._policies, self._bindings)

    async def _run(self, write: AdmissionAttributes, *, reinvocation: bool) -> None:
        bindings = by_policy(self._bindings.all)
        policies = [
            policy for policy in self._policies.all if policy.name in bindings and (policy.reinvoke or not reinvocation)
        ]
        failures: list[Decision] = []
        changed_by: list[bool] = []
        for policy in policies:
            changed_by.append(await self._apply(write, policy, bindings[policy.name], failures))
        if not reinvocation:
            for position, policy in enumerate(policies):
                if policy.reinvoke and any(changed_by[position + 1 :]):
                    await self._apply(write, policy, bindings[policy.name], failures)
        if failures:
            raise _status_error(write, failures)

    async def _apply(
        self, write: AdmissionAttributes, policy: Policy, bindings: list[Binding], failures: list[Decision]
    ) -> bool:
        """Apply the policy; returns whether it has changed the object. Appends to ``failures`` unless it fails open."""

        def failed(binding: str, message: str, reason: str = "") -> None:
            if not policy.ignores_failures:
                failures.append(Decision("policy", policy.name, binding, message, reason))

        changed = False
        async for each in bound(self._core, write, policy.criteria, policy.param_kind, bindings):
            if not isinstance(each, Bound):
                failed(each.binding, each.message)
                continue
            try:
                changed |= await self._mutate(write, policy, each)
            except ExpressionError as error:
                failed(each.binding.name, str(error), "Invalid")
            except NotConverted as error:
                failed(each.binding.name, f"failed to configure binding: failed to convert object version: {error.why}")
        return changed

    async def _mutate(self, write: AdmissionAttributes, policy: Policy, each: Bound) -> bool:
        info, parameters = each.info, each.parameters
        if not await policy.conditions.match(Inputs(await versioned_attributes(self._core, write, info), parameters)):
            return False
        changed = False
        for mutation in policy.mutations:
            # Each mutation sees the result of those before it.
            inputs = Inputs(await versioned_attributes(self._core, write, info), parameters)
            obj = await converted(self._core, write, write.obj, info)
            assert obj is not None, "there is an object to change"
            with self._counted(policy.name, each.binding.name):
                desired = await mutation.apply(inputs, copy.deepcopy(obj), info)
            if info is not write.info:
                desired = await convert(self._core, info, write.info, desired)
            changed |= adopt(self._core, write, desired)
        return changed

    @contextmanager
    def _counted(self, policy: str, binding: str) -> Iterator[None]:
        """Count the mutation in this block, if somebody counts."""
        metrics, clock = self._core.metrics, self._core.env.perf_counter
        if metrics is None:
            yield
            return
        began, error = clock(), NO_ERROR
        try:
            yield
        except ExpressionError as failed:
            error = error_type(str(failed))
            raise
        finally:
            metrics.policies.mutated(policy, binding, error, clock() - began)


def _status_error(write: AdmissionAttributes, failures: list[Decision]) -> errors.StatusError:
    """The first failure is the message, all of them are causes (``policy_dispatcher.go``). The code stays 403."""
    error = new_forbidden(write, "")
    details = {**(error.details or {}), "causes": [{"message": failure.text} for failure in failures]}
    return errors.StatusError(403, failures[0].reason or "Forbidden", failures[0].text, details=details)
