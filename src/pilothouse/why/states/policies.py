"""Admission policies that no binding uses, or whose expressions have warnings of the type checker."""

from pilothouse.why.states.lifetime import newest_change
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View


async def policy(view: View) -> Finding | None:
    """A ValidatingAdmissionPolicy or MutatingAdmissionPolicy."""
    steps: list[Step] = []
    warnings = (view.status.get("typeChecking") or {}).get("expressionWarnings") or ()
    for warning in warnings:
        text = " ".join(str(warning.get("warning") or "").split())
        steps.append(view.step(f"has a wrong type in {warning.get('fieldRef')}: {text}", root=STATE))
    plural = view.reference.plural.removesuffix("policies")
    bindings = f"{plural}policybindings.{view.reference.group}"
    found = await view.evidence.objects(bindings, "")
    is_bound = any((binding.get("spec") or {}).get("policyName") == view.reference.name for binding in found)
    if not is_bound and not view.is_unlisted(bindings):
        steps.append(view.step(f"has no effect: no {view.evidence.kind_of(bindings)} has it as its policy", root=STATE))
    changed = await newest_change(view)
    for step in steps:
        step.because = [changed] if changed is not None else []
        step.root = "" if step.because else STATE
    state = "type checking warnings" if warnings else "not bound"
    return Finding(state, tuple(steps)) if steps else None
