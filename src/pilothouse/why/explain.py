"""``explain``: runs the checks of an object's kind and follows the changes that led to its state."""

import datetime

from pilothouse.env import Env
from pilothouse.why.chain import Chain, UnrecordedFault
from pilothouse.why.evidence import Evidence, Reference
from pilothouse.why.states import conditions, kopf_handlers, lifetime, recorded, stored
from pilothouse.why.states.missing_owners import missing_owners
from pilothouse.why.states.registry import CHECKS, CHECKS_OF_STORED, DEFAULT_CHECKS
from pilothouse.why.steps import AS_DESIRED, NO_CONDITION, NO_STATUS, UNKNOWN_CONDITIONS, Explanation
from pilothouse.why.view import Finding, View

_MAX_ROOTS = 3
"""Root causes for which other writes of the same user are listed."""


async def explain(
    evidence: Evidence,
    reference: Reference,
    *,
    time: datetime.datetime | None = None,
    unrecorded: UnrecordedFault = lambda _reference, _until: None,
) -> Explanation:
    """Explain the state of an object. ``time`` is the cluster's, by default now; ``unrecorded`` finds faults that no
    write injected. Failed reads are listed in ``unseen``; they raise nothing."""
    now = time or Env().now()
    view = View(evidence, Chain(evidence, unrecorded), reference, await evidence.get(reference), now, finding)
    result = await finding(view)
    steps = [*result.steps, *await missing_owners(view)]
    explanation = Explanation(object=view.title, namespace=reference.namespace, state=result.state, steps=steps)
    for root in explanation.roots()[:_MAX_ROOTS]:
        await view.chain.add_nearby(root, steps)
    explanation.root_causes = explanation.causes()
    explanation.unseen = list(evidence.unseen)
    return explanation


async def finding(view: View) -> Finding:
    """The result of the first check that applies; otherwise the object is as desired."""
    if not view.evidence.has_objects:
        return await recorded.recorded(view)
    if view.is_unreadable:
        return await lifetime.unreadable(view)
    if view.now is None:
        return await lifetime.deleted(view)
    resource = view.reference.resource
    for check in (*CHECKS[""], *CHECKS_OF_STORED.get(resource, ()), *CHECKS.get(resource, DEFAULT_CHECKS)):
        result = await check(view)
        if result is not None:
            return result
    if _is_only_stored(view):
        return await stored.stored(view)
    last = await lifetime.newest_change(view)
    if last is None:
        last = lifetime.unrecorded(view)
    if resource not in CHECKS:
        last.table = [*last.table, *conditions.other_lines(view), *kopf_handlers.handled_lines(view)]
        if conditions.has_unknown_conditions(view):
            return Finding(UNKNOWN_CONDITIONS, (last,))
    if not _has_no_conditions(view):
        return Finding(AS_DESIRED, (last,))
    return Finding(NO_CONDITION if view.status else NO_STATUS, (last,))


def _is_only_stored(view: View) -> bool:
    """Whether the object has no state: no controller reports on it."""
    resource = view.reference.resource
    return resource not in CHECKS and not view.status and (resource in stored.WITHOUT_STATUS or not view.spec)


def _has_no_conditions(view: View) -> bool:
    """Whether the state can't be told from the status: a custom resource without conditions."""
    has_conditions = view.reference.resource in CHECKS or view.conditions
    return not has_conditions and bool(view.spec or view.status)
