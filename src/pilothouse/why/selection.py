"""Which pods a PodDisruptionBudget selects. Pure."""

import msgspec

from pilothouse.api.policy import PodDisruptionBudget
from pilothouse.machinery.labels import SelectorError, selector_from
from pilothouse.why.evidence import Document


def selects(budget: Document, pod: Document) -> bool:
    """Whether a budget of the pod's namespace selects it."""
    try:
        selector = selector_from(msgspec.convert(budget, PodDisruptionBudget, strict=False).spec.selector)
    except SelectorError:
        return False
    return selector.matches((pod.get("metadata") or {}).get("labels") or {})


def bounds(budget: Document) -> str:
    """``minAvailable 3``; percentages are shown with the number of expected pods."""
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    expected = status.get("expectedPods", 0)
    named = [(name, spec[name]) for name in ("minAvailable", "maxUnavailable") if name in spec]
    return " and ".join(f"{name} {value}{_percentage_of(value, expected)}" for name, value in named) or "as by default"


def _percentage_of(value: object, expected: int) -> str:
    """`` of 3 = 2.4, rounded up``: both fields are rounded up (``pkg/controller/disruption``, v1.36)."""
    text = str(value)
    if not text.endswith("%") or not text[:-1].isdigit():
        return ""
    exact = int(text[:-1]) * expected / 100
    return f" of {expected} = {exact:g}{'' if exact.is_integer() else ', rounded up'}"
