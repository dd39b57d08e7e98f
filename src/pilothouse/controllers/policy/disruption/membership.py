"""The pods of a budget, and the budgets of a pod, by indexes on labels.

Upstream (v1.36 ``GetPodPodDisruptionBudgets`` and ``getPodsForPdb``) walks all budgets of a namespace for each event of
a pod, and all its pods for each sync of a budget.
"""

from collections.abc import Mapping

from pilothouse.api.core import Pod
from pilothouse.api.meta import LabelSelector, ObjectMeta
from pilothouse.api.policy import PodDisruptionBudget
from pilothouse.controllers.shared.pods_by_label import (
    LABEL_INDEX,
    index_by_label,
    label_index_value,
    pods_selected,
    required_label,
)
from pilothouse.machinery.labels import Selector, SelectorError, selector_from
from pilothouse.runtime import Cache, object_key

SELECTOR_INDEX = "selectedLabel"
_FEW = 64


class BudgetPods:
    """On the caches of two informers, to which it adds its indexes.

    Compiled selectors are kept until the budget changes: one may have thousands of requirements, and it is compared
    with each pod of the namespace that changes.
    """

    def __init__(self, budgets: Cache[PodDisruptionBudget], pods: Cache[Pod]) -> None:
        self._budgets = budgets
        self._pods = pods
        self._selectors: dict[str, tuple[LabelSelector | None, Selector]] = {}
        budgets.add_index(SELECTOR_INDEX, self._index_by_selector)
        pods.add_index(LABEL_INDEX, index_by_label)

    def _index_by_selector(self, budget: PodDisruptionBudget) -> tuple[str, ...]:
        """The index function of ``SELECTOR_INDEX``: budgets by a label that their pods carry; others by their
        namespace."""
        namespace = budget.metadata.namespace
        try:
            selector = self._selector_of(budget)
        except SelectorError:
            return ()  # selects nothing; a sync of it records why
        if selector.selects_nothing:
            return ()
        fixed = required_label(selector)
        return (label_index_value(namespace, *fixed) if fixed is not None else namespace,)

    def _selector_of(self, budget: PodDisruptionBudget) -> Selector:
        key, label_selector = object_key(budget.metadata), budget.spec.selector
        cached = self._selectors.get(key)
        if cached is not None and (cached[0] is label_selector or cached[0] == label_selector):
            return cached[1]  # equal in each version of a budget, and expensive to compile if it is long
        selector = selector_from(label_selector)
        if len(self._selectors) > 2 * len(self._budgets) + _FEW:
            self._selectors = {
                budget_key: cached_selector
                for budget_key, cached_selector in self._selectors.items()
                if budget_key in self._budgets
            }
        self._selectors[key] = label_selector, selector
        return selector

    def forget(self, budget: PodDisruptionBudget) -> None:
        """Drop the selector of a deleted budget, which may be long."""
        self._selectors.pop(object_key(budget.metadata), None)

    def get_pods_for_pdb(self, budget: PodDisruptionBudget) -> list[Pod]:
        """Its pods in any phase, sorted by name. Raises ``SelectorError``."""
        return pods_selected(self._pods, budget.metadata.namespace, self._selector_of(budget))

    def get_pod_pod_disruption_budgets(self, meta: ObjectMeta) -> list[PodDisruptionBudget]:
        """The budgets that select a pod with this metadata, sorted by name."""
        index = self._budgets.by_index
        candidates = index(SELECTOR_INDEX, meta.namespace)
        for key, value in meta.labels.items():
            candidates += index(SELECTOR_INDEX, label_index_value(meta.namespace, key, value))
        if not candidates:
            return candidates
        chosen = [candidate for candidate in candidates if self._selector_of(candidate).matches(meta.labels)]
        chosen.sort(key=lambda chosen_budget: chosen_budget.metadata.name)
        return chosen

    def may_select(self, budget: PodDisruptionBudget, labels: Mapping[str, str]) -> bool:
        """Whether the budget may select pods with these labels and maybe others."""
        try:
            fixed = required_label(self._selector_of(budget))
        except SelectorError:
            return False
        return fixed is None or labels.get(fixed[0], fixed[1]) == fixed[1]
