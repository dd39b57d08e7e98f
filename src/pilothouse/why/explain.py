"""``explain``: finds what is remarkable about an object, and what that follows from."""

import datetime

from pilothouse.env import Env
from pilothouse.why.chain import Chain
from pilothouse.why.evidence import Evidence, Reference
from pilothouse.why.states import lifetime
from pilothouse.why.states.registry import OTHERS, REMARKS
from pilothouse.why.steps import AS_DESIRED, NO_CONDITION, UNKNOWN, Explanation, Step
from pilothouse.why.view import Finding, View

_MOST_ROOTS = 3
"""Of so many of the acts that it began with it is said what else the same user did then."""


async def explain(evidence: Evidence, reference: Reference, *, time: datetime.datetime | None = None) -> Explanation:
    """Why an object is as it is. ``time`` is that of the cluster, now unless it is given. Never fails for what can't be
    read: that is in ``unseen``."""
    asked = time or Env().now()
    view = View(evidence, Chain(evidence), reference, await evidence.get(reference), asked, finding)
    found = await finding(view)
    explanation = Explanation(
        object=view.title, namespace=reference.namespace, state=found.state, steps=list(found.steps)
    )
    for root in explanation.roots()[:_MOST_ROOTS]:
        await view.chain.add_nearby(root)
    explanation.unseen = list(evidence.unseen)
    return explanation


async def finding(view: View) -> Finding:
    """What there is to say of one object."""
    if view.now is None:
        return await lifetime.gone(view)
    for remark in (*REMARKS[""], *REMARKS.get(view.reference.resource, OTHERS)):
        found = await remark(view)
        if found is not None:
            return found
    last = await lifetime.newest_change(view)
    if last is None:
        last = Step(text=f"{view.title} is older than the history", object=view.title, root=UNKNOWN)
    return Finding(NO_CONDITION if _says_nothing(view) else AS_DESIRED, (last,))


def _says_nothing(view: View) -> bool:
    """Whether nothing is known of how far what it asks for has come: a custom resource without conditions."""
    known = view.reference.resource in REMARKS or view.status.get("conditions")
    return not known and bool(view.spec or view.status)
