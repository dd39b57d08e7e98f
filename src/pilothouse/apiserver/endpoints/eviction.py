"""pods/eviction: deletes a pod if its disruption budgets allow it.

After kubernetes' ``pkg/registry/core/pod/storage/eviction.go`` (v1.36). The disruption controller maintains the status
of a budget; an eviction decrements ``disruptionsAllowed`` and adds the pod to ``disruptedPods``, so that the controller
does not count it as healthy until its deletion is observed.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver import errors
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.create import subresource_attributes
from pilothouse.apiserver.endpoints.delete import check_preconditions, delete_one
from pilothouse.apiserver.endpoints.object_names import ensure_namespace_matches
from pilothouse.apiserver.endpoints.request_objects import read_built_in
from pilothouse.apiserver.endpoints.update import Change, apply_change, read_stored
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.options import (
    NO_OPTIONS,
    DeleteOptions,
    Preconditions,
    read_delete_options,
    read_write_options,
)
from pilothouse.apiserver.origins import record_reason
from pilothouse.apiserver.request_info import NO_QUERY
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.bodies import check_size, read_document
from pilothouse.apiserver.serializers.results import StatusResult
from pilothouse.machinery.labels import SelectorError, selector_from

GROUP = "policy"
MAX_DISRUPTED_PODS = 2000
_ATTEMPTS = 20
_PAUSE_SECONDS = 0.5
_TRY_AGAIN_SECONDS = 10
_VIOLATES_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_SERVER = Identity("system:apiserver", ("system:masters",))
"""The identity that writes the budget: as upstream, the loopback client."""
_USER_AGENT = "kube-apiserver"
"""Its user agent, which becomes the manager of the fields."""


async def evict(core: Core, call: Call) -> StatusResult:
    """POST of pods/NAME/eviction."""
    eviction = await core.long_work.run(call.size, _read, call)
    ensure_namespace_matches(call, eviction["metadata"])
    core.managed_fields.update_review(call, eviction, read_write_options(call.request_info.query, "CreateOptions"))
    write = subresource_attributes(call, eviction)
    await core.admission.admit(write)
    if eviction["metadata"].get("name") != call.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options = _delete_options(call, eviction)
    await core.admission.validate(write)
    # From here on metadata and status of the pod are written, as through pods/status.
    request_info = msgspec.structs.replace(call.request_info, subresource="status", query=NO_QUERY)
    status_call = msgspec.structs.replace(call, request_info=request_info, skip_admission=True)
    pod = await _pod(core, status_call)
    attempts = 1 if _resource_version(options) else _ATTEMPTS
    for attempt in range(attempts):
        if not _can_ignore_pdb(pod):
            break
        record_reason(f"pod {call.name} is evicted without a budget: {_phase(pod) or 'no phase'}, or being deleted")
        conditional = options
        if _should_enforce_resource_version(pod) and not _resource_version(options):
            conditional = _with_resource_version(options, pod)
        try:
            await _add_condition_and_delete_pod(core, status_call, conditional)
        except StatusError as error:
            if error.code != 409 or attempt == attempts - 1:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
            pod = await _pod(core, status_call)
            continue
        return _evicted(status_call)
    await _evict_within_budget(core, status_call, pod, options)
    return _evicted(status_call)


def _evicted(call: Call) -> StatusResult:
    return StatusResult(201, msgspec.json.encode(errors.success(code=201)), tuple(call.warnings))


async def _evict_within_budget(core: Core, call: Call, pod: Object, options: DeleteOptions) -> None:
    budgets = await _get_pod_disruption_budgets(core, call, pod)
    if len(budgets) > 1:
        raise errors.plain(_SEVERAL_BUDGETS)
    if not budgets:
        record_reason(f"pod {call.name} is evicted: no PodDisruptionBudget selects it")
        await _add_condition_and_delete_pod(core, call, options)
        return
    info, budget = budgets[0]
    name: str = budget["metadata"]["name"]
    if not _is_ready(pod) and _may_evict_unhealthy(budget):
        record_reason(f"pod {call.name} is evicted: it is not ready, and PodDisruptionBudget {name} allows that")
        try:
            await _add_condition_and_delete_pod(core, call, _with_resource_version(options, pod))
        except StatusError as error:
            if error.code == 409 and not _resource_version(options):
                # The pod has changed since and may be healthy.
                raise _still_processed(name) from None
            raise
        return
    await _decrement_budget(core, call, info, name, options)
    await _add_condition_and_delete_pod(core, call, options)


# The request


def _read(call: Call) -> Object:
    body = call.request.body
    check_size(body)
    document = read_document(body, call.content_type, "Eviction")
    if document.get("apiVersion") == "policy/v1beta1" and document.get("kind") == "Eviction":
        # policy/v1beta1 of kubectl before v1.22; both versions have the same fields.
        document["apiVersion"] = "policy/v1"
        headers = {**call.request.headers, "content-type": "application/json"}
        request = msgspec.structs.replace(call.request, headers=headers, body=msgspec.json.encode(document))
        call = msgspec.structs.replace(call, request=request)
    options = read_write_options(call.request_info.query, "CreateOptions")
    eviction = read_built_in(call, options, call.info, GROUP, "v1", "Eviction")
    return {**eviction, "kind": "Eviction", "apiVersion": "policy/v1", "metadata": eviction.get("metadata") or {}}


def _delete_options(call: Call, eviction: Object) -> DeleteOptions:
    """The options of the deletion; dryRun may be set in the query, in the body, or equally in both."""
    delete_options = eviction.get("deleteOptions")
    query_dry_run = call.request_info.query.get("dryRun")
    if delete_options is None:
        return DeleteOptions(dry_run=query_dry_run)
    options = read_delete_options(NO_QUERY, msgspec.json.encode(delete_options))
    if not options.dry_run:
        options.dry_run = query_dry_run
    elif query_dry_run and query_dry_run != options.dry_run:
        raise errors.plain(
            f"Non-matching dry-run options in request and content: [{' '.join(query_dry_run)}] and "
            f"[{' '.join(options.dry_run)}]"
        )
    return options


def _resource_version(options: DeleteOptions) -> str:
    preconditions = options.preconditions
    return (preconditions.resource_version or "") if preconditions is not None else ""


def _with_resource_version(options: DeleteOptions, pod: Object) -> DeleteOptions:
    """The options with a precondition for the resourceVersion of the pod."""
    preconditions = options.preconditions or Preconditions()
    with_resource_version = msgspec.structs.replace(preconditions, resource_version=pod["metadata"]["resourceVersion"])
    return msgspec.structs.replace(options, preconditions=with_resource_version)


# The pod


async def _pod(core: Core, call: Call) -> Object:
    record = core.store.staged(call.key)
    if record is None:
        raise errors.not_found(call.info, call.name)
    return await read_stored(core, call, record)


def _phase(pod: Object) -> str:
    phase: str = (pod.get("status") or {}).get("phase") or ""
    return phase


def _can_ignore_pdb(pod: Object) -> bool:
    """Whether the pod can be deleted without a budget: it is terminated, being deleted, or pending
    (``canIgnorePDB``)."""
    return _phase(pod) in ("Pending", "Succeeded", "Failed") or bool(pod["metadata"].get("deletionTimestamp"))


def _should_enforce_resource_version(pod: Object) -> bool:
    """Whether the pod could come to need a budget: then only the read version is deleted
    (``shouldEnforceResourceVersion``, v1.36 ``pkg/registry/core/pod/storage/eviction.go``)."""
    return _phase(pod) not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


async def _add_condition_and_delete_pod(core: Core, call: Call, options: DeleteOptions) -> None:
    """Add the condition DisruptionTarget, then delete the pod, both with the preconditions of the options."""
    if not options.is_dry_run:

        def marked(pod: Object) -> Object:
            _check(call, pod, options)
            _add_target(pod, core.time.now())
            return pod

        result = await apply_change(core, call, Change(transform=marked, tracked=False), NO_OPTIONS)
        if _resource_version(options):
            options = _with_resource_version(options, decode(result.value))
    await delete_one(core, call, options)


def _check(call: Call, pod: Object, options: DeleteOptions) -> None:
    """Check the preconditions; upstream names the kind where others name the resource."""
    try:
        check_preconditions(call, pod, options)
    except StatusError as error:
        raise errors.kind_conflict("Pod", call.name, error.message.partition('": ')[2]) from None


def _add_target(pod: Object, now: str) -> None:
    _set_condition(
        pod.setdefault("status", {}),
        {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        },
    )


def _set_condition(status: Object, new: Object) -> None:
    """Set a condition, in place or appended. Its transition time only changes with its status."""
    conditions: list[Any] = list(status.get("conditions") or ())
    for position, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            if old.get("status") == new["status"]:
                new["lastTransitionTime"] = old.get("lastTransitionTime")
            conditions[position] = new
            break
    else:
        conditions.append(new)
    status["conditions"] = conditions


# The budget


async def _get_pod_disruption_budgets(core: Core, call: Call, pod: Object) -> list[tuple[ResourceInfo, Object]]:
    """The budgets that select the pod."""
    info = core.table.built_in(GROUP, "poddisruptionbudgets")
    values = [record.value for record in core.store.list(info.list_prefix(call.namespace)).records]
    labels = pod["metadata"].get("labels") or {}
    budgets = await core.long_work.run(sum(map(len, values)), _budgets_that_select, values, labels)
    return [(info, budget) for budget in budgets]


def _budgets_that_select(values: Iterable[bytes], labels: Mapping[str, str]) -> list[Object]:
    selecting = []
    for value in values:
        budget = decode(value)
        selector = (budget.get("spec") or {}).get("selector")
        if selector is None:
            continue
        try:
            matches = selector_from(msgspec.convert(selector, LabelSelector)).matches(labels)
        except (SelectorError, msgspec.ValidationError):
            # A budget with an invalid selector selects nothing; the disruption controller reports it.
            continue
        if matches:
            selecting.append(budget)
    return selecting


def _may_evict_unhealthy(budget: Object) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return desired > 0 and (status.get("currentHealthy") or 0) >= desired


async def _decrement_budget(core: Core, call: Call, info: ResourceInfo, name: str, options: DeleteOptions) -> None:
    """Decrement the disruptions allowed by the budget."""
    request_info = msgspec.structs.replace(
        call.request_info,
        group=GROUP,
        resource=info.resource,
        name=name,
        info=info,
        subresource="status",
        sub=info.subresources["status"],
    )
    request = msgspec.structs.replace(call.request, headers={**call.request.headers, "user-agent": _USER_AGENT})
    budget_call = Call(request, request_info, info, core.strategy(info), _SERVER, call.namespace, name, [])

    def charged(budget: Object) -> Object:
        _check_and_decrement(info, budget, call.name, core.time.now())
        remaining = budget["status"]["disruptionsAllowed"]
        record_reason(
            f"pod {call.name} is evicted: PodDisruptionBudget {name} is charged, disruptionsAllowed {remaining + 1} -> "
            f"{remaining}"
        )
        return budget

    for attempt in range(_ATTEMPTS):
        record = core.store.staged(budget_call.key)
        if record is None:
            raise errors.not_found(info, name)
        if options.is_dry_run:
            charged(await read_stored(core, budget_call, record))
            return
        try:
            await apply_change(core, budget_call, Change(transform=charged), NO_OPTIONS)
        except StatusError as error:
            if error.code != 409:
                raise
            if attempt == _ATTEMPTS - 1:
                raise errors.timeout(f'couldn\'t update PodDisruptionBudget "{name}" due to conflicts') from None
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


def _check_and_decrement(info: ResourceInfo, budget: Object, pod: str, now: str) -> None:
    meta, status = budget["metadata"], budget.setdefault("status", {})
    name: str = meta["name"]
    if (status.get("observedGeneration") or 0) < (meta.get("generation") or 0):
        raise _still_processed(name)
    allowed = status.get("disruptionsAllowed") or 0
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    disrupted: Object = dict(status.get("disruptedPods") or {})
    if len(disrupted) > MAX_DISRUPTED_PODS:
        raise _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if not allowed:
        raise _too_many_requests(name, _insufficient_budget_message(name, status), 0)
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _set_insufficient(status, meta.get("generation") or 0, now)
    disrupted[pod] = now
    status["disruptedPods"] = disrupted


def _insufficient_budget_message(name: str, status: Object) -> str:
    condition: Object = next(
        (existing for existing in status.get("conditions") or () if existing.get("type") == "DisruptionAllowed"), {}
    )
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    current, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    if reason == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    detail = f"The disruption budget {name} does not allow evicting pods currently"
    return f"{detail} ({reason}): {message}" if reason else f"{detail}: {message}" if message else detail


def _set_insufficient(status: Object, generation: int, now: str) -> None:
    _set_condition(
        status,
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": generation,
            "lastTransitionTime": now,
            "reason": "InsufficientPods",
            "message": "",
        },
    )


def _too_many_requests(name: str, reason: str, retry_after: int) -> StatusError:
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": reason}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", _VIOLATES_BUDGET, details=details)


def _still_processed(name: str) -> StatusError:
    reason = f"The disruption budget {name} is still being processed by the server."
    return _too_many_requests(name, reason, _TRY_AGAIN_SECONDS)


def _forbidden(name: str, reason: str) -> StatusError:
    # Upstream's message has the resource in the singular.
    details = {"name": name, "group": GROUP, "kind": "poddisruptionbudget"}
    return StatusError(403, "Forbidden", f'poddisruptionbudget.policy "{name}" is forbidden: {reason}', details=details)
