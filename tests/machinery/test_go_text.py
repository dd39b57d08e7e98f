"""Values as Go prints them."""

import pytest

from pilothouse.api.meta import LabelSelector, LabelSelectorRequirement
from pilothouse.machinery.go_text import print_selector


def term(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("selector", "printed"),
    [
        pytest.param(None, "nil", id="a nil pointer"),
        pytest.param(
            LabelSelector(),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}",
            id="what is empty is printed",
        ),
        pytest.param(
            LabelSelector(match_labels={"b": "2", "a": "1"}),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{},}",
            id="labels come sorted by key",
        ),
        pytest.param(
            LabelSelector(match_expressions=(term("b", "In", "y", "x"), term("a", "Exists"))),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{"
            "LabelSelectorRequirement{Key:b,Operator:In,Values:[y x],},"
            "LabelSelectorRequirement{Key:a,Operator:Exists,Values:[],},},}",
            id="expressions and their values keep their order",
        ),
        pytest.param(
            LabelSelector(match_labels={"b": "2", "a": "1"}, match_expressions=(term("a", "Like", "b"),)),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{"
            "LabelSelectorRequirement{Key:a,Operator:Like,Values:[b],},},}",
            id="both, and an operator that there is not",
        ),
    ],
)
def test_selectors_print_as_in_go(selector: LabelSelector | None, printed: str) -> None:
    assert print_selector(selector) == printed
