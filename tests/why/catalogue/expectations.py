"""The expected content of an explanation, as paths from the explained state to the root causes."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from pilothouse.why import Explanation, Step, text_lines


def paths(explanation: Explanation) -> list[str]:
    """Each way to a root: ``pod/a by replicaset-controller < deployment/web by jane with kubectl scale [user]``."""
    return [path for step in explanation.steps for path in _paths(step)]


def _paths(step: Step) -> Iterator[str]:
    here = f"{step.object} by {step.by}" if step.by else step.object
    if not step.because:
        yield f"{here} [{step.root}]"
    for item in step.because:
        for rest in _paths(item):
            yield f"{here} < {rest}"


def assert_explains(explanation: Explanation, state: str, *expected: str) -> None:
    """Compare the state and the paths. ``*`` matches generated values.

    The order of paths does not matter, and there must be no others, so no other root causes.
    """
    result = paths(explanation)
    missing = [item for item in expected if not any(_matches(path, item) for path in result)]
    further = [path for path in result if not any(_matches(path, item) for item in expected)]
    assert (explanation.state, missing, further) == (state, [], []), f"\n{whole_text(explanation)}"


def _matches(path: str, expected: str) -> bool:
    # Brackets are literal; line breaks are ignored.
    return fnmatchcase(path, " ".join(expected.split()).replace("[", "[[]"))


def root_texts(explanation: Explanation) -> list[str]:
    """The texts of the root causes."""
    return [root.text for root in explanation.roots()]


def whole_text(explanation: Explanation) -> str:
    """The answer for a terminal."""
    return "\n".join(text_lines(explanation))
