"""Values formatted as in Go."""

from tests.tables import cases

from pilothouse.api.meta import LabelSelector, LabelSelectorRequirement
from pilothouse.machinery.go_text import print_selector


def term(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


@cases(
    "selector, printed",
    {
        "a nil pointer": (None, "nil"),
        "empty fields are printed": (
            LabelSelector(),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}",
        ),
        "labels are sorted by key": (
            LabelSelector(match_labels={"b": "2", "a": "1"}),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{},}",
        ),
        "expressions and values keep their order": (
            LabelSelector(match_expressions=(term("b", "In", "y", "x"), term("a", "Exists"))),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{"
            "LabelSelectorRequirement{Key:b,Operator:In,Values:[y x],},"
            "LabelSelectorRequirement{Key:a,Operator:Exists,Values:[],},},}",
        ),
        "labels and an unknown operator": (
            LabelSelector(match_labels={"b": "2", "a": "1"}, match_expressions=(term("a", "Like", "b"),)),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{"
            "LabelSelectorRequirement{Key:a,Operator:Like,Values:[b],},},}",
        ),
    },
)
def test_selectors_print_as_in_go(selector: LabelSelector | None, printed: str) -> None:
    assert print_selector(selector) == printed
