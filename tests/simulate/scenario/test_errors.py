"""Hints of the errors in scenario files."""

from pathlib import Path

from tests.simulate.scenario.test_loading import HEAD, error_of
from tests.tables import cases


@cases(
    "name, actual, hint",
    {
        "a boolean": ("n", "true or false", ": YAML reads n, no and off as false, and y, yes and on as true"),
        "a whole number": ("1", "a whole number", ""),
        "a number": ("1.5", "a number", ""),
    },
)
def test_text_that_needs_quotes(tmp_path: Path, name: str, actual: str, hint: str) -> None:
    group = "  cluster: {{nodeGroups: [{{name: {}, count: 3}}]}}\n"
    error = error_of(tmp_path, HEAD + group.format(name))
    place = "s.yaml:5: spec.cluster.nodeGroups[0].name"
    assert error == f"{place}: expected text, got {actual}; write it in quotes{hint}"
