"""Comparison of the outputs of two sides, with varying parts masked."""

import re
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

import yaml
from tests.clients.kubectl_session.runner import Step
from tests.clients.kubectl_session.sides import Answer

ABSENT = "(absent)"
# What generated names end with (k8s.io/apimachinery, util/rand).
_ALPHABET = "[bcdfghjklmnpqrstvwxz2456789]"

_MASKS = tuple(
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"(/tmp)?/[^ ]*/(LIVE|MERGED)-\d+/", r"\2/"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000)", "<time>"),
        (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "<time>"),
        # Not behind a hyphen: a generated name may end with "-4567s".
        (r"(?<![\w-])(\d+d)?(\d+h)?(\d+m)?\d+m?s\b( \(x\d+ over [\dhms]+\))?", "<age>"),
        (rf"-{_ALPHABET}{{7,10}}(?=\b)(?!-{_ALPHABET}{{2,4}}\b)", "-<hash>"),
        (rf"-{_ALPHABET}{{5}}\b(?!-)", "-<name>"),
        (rf"(?<=pod-template-hash=){_ALPHABET}+", "<hash>"),
        (r"(?s)-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", "<certificate>"),
        (r"simulated://[0-9a-f]{64}", "simulated://<container>"),
        (r"(?m)^[IWE]\d{4} [\d:.]+ +\d+ ", "<log> "),
        # The error of kubectl's watch if it is terminated while it starts.
        (r"(?m)^<log> reflector\.go:.*\n", ""),
        # Servers before v1.23 report a generated name that is in use as a timeout (kubernetes#104699). Whether the
        # previous pod has been removed by then depends on milliseconds.
        (r"(?m)^ *Warning  FailedCreate .*The POST operation against Pod could not be completed at this time.*\n", ""),
        # Where a part of a diff begins.
        (r"(?m)^@@ .* @@$", "@@"),
        # Continuation lines are indented by the longest name.
        (r"(?m)^ {12,}", "            "),
        (r"\.1[0-9a-f]{15}\b", ".<event>"),
        (r"https://127.0.0.1:\d+", "<server>"),
        (r"\b10\.0\.\d+\.\d+\b", "<cluster IP>"),
        (r"\b10\.128\.\d+\.\d+\b", "<pod IP>"),
        (r"\b3[0-2]\d{3}(?=/TCP|\b)", "<node port>"),
        (r"(?<=resourceVersion: )\"?\d+\"?", "<revision>"),
        (r"(?i)(?<=Resource Version:)\s+\d+", " <revision>"),
    )
)
_OWN = (
    ".resourceVersion",
    ".nodePort",
    ".machineID",
    ".bootID",
    ".systemUUID",
    ".status.certificate",
    ".pod-template-hash",
)
_RENAMED = ".spec.selector.matchLabels.controller-uid"
"""Job labels, which have a prefix since v1.27."""
_OWNED = re.compile(r"\.managedFields\[[^\]]*\]\.(?!manager$)")
"""Managed fields are covered by the recorded responses of v1.36.2."""


def differences(step: Step, expected: Answer, actual: Answer) -> Iterator[str]:
    """The differences of a step: the exit code, any line, or a field of kube-apiserver's object.

    Fields that only pilothouse has were added by later releases: they are compared with the recorded answers of
    v1.36.2, and the text of steps that are ``newer`` with golden output.
    """
    if expected.code != actual.code:
        yield f"{step.name} | exit code: expected {expected.code}, actual {actual.code}"
    if step.newer:
        return
    yield from _compare_text(f"{step.name} | err", lines(step, expected.err), lines(step, actual.err))
    if re.search(r"(^| )-o (yaml|json)\b", step.line) and expected.out.strip() and actual.out.strip():
        yield from _compare_objects(step, list(yaml.safe_load_all(expected.out)), list(yaml.safe_load_all(actual.out)))
    else:
        yield from _compare_text(f"{step.name} | out", lines(step, expected.out), lines(step, actual.out))


# Text


def mask(text: str) -> str:
    """The text with varying parts masked."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


def lines(step: Step, text: str) -> list[str]:
    """The output of a step, with deterministic order and column widths."""
    # Columns are as wide as their longest cell.
    result = [re.sub(r"(?<=\S) {2,}", "  ", line).rstrip() for line in mask(text).splitlines()]
    return sorted(result) if step.unordered else _sort_events(result)


def _sort_events(found_events: list[str]) -> list[str]:
    """Normalize the events of a description: their order within a second varies, and repeated ones are counted."""
    result: list[str] = []
    events: list[str] | None = None
    for line in [*found_events, ""]:
        if events is not None and line:
            events.append(line)
            continue
        if events is not None:
            result.extend(sorted(set(events)))
            events = None
        if line.startswith("Events:"):
            events = []
        result.append(line)
    return result[:-1]


def _compare_text(place: str, expected: list[str], actual: list[str]) -> Iterator[str]:
    if expected != actual:
        yield "\n".join([place, *unified_diff(expected, actual, "expected", "actual", lineterm="", n=1)])


# Objects


def _compare_objects(step: Step, expected: Any, actual: Any) -> Iterator[str]:
    left, right = dict(_flatten(_sorted(expected), "")), dict(_flatten(_sorted(actual), ""))
    for path, value in left.items():
        obj = right.get(path, ABSENT)
        # A null is a field that is not set; since v1.34 it is not printed.
        if value not in (obj, "None") and not path.endswith(_RENAMED) and not _OWNED.search(path):
            yield f"{step.name} | {path}: expected {value}, actual {obj}"


def _sorted(documents: list[Any]) -> list[Any]:
    """Sort objects with generated names independently of these."""
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            document["items"].sort(key=_rank)
    return documents


def _rank(item: Any) -> tuple[str, str, int]:
    meta = item["metadata"]
    revision = meta.get("annotations", {}).get("deployment.kubernetes.io/revision", "0")
    return item["kind"], mask(meta["name"]), int(revision)


def _flatten(value: Any, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict() if value:
            for key, below in value.items():
                yield from _flatten(below, f"{path}.{mask(key)}")
        case list() if value:
            for name, below in _named(value):
                yield from _flatten(below, f"{path}[{name}]")
        case _:
            yield path.removeprefix("[0]"), _leaf(path, value)


def _named(members: list[Any]) -> Iterator[tuple[str, Any]]:
    """Conditions and managers by their names, since their order varies; other items by position."""
    for index, member in enumerate(members):
        match member:
            case {"manager": manager, "operation": operation}:
                # The subresource is a separate field. Entries of one manager with and without it are merged here.
                yield f"{manager} {operation}", member
            case {"type": kind, "status": _}:
                yield kind, member
            case _:
                yield str(index), member


def _leaf(path: str, value: Any) -> str:
    if path.endswith(_OWN):
        return "<some>"
    return mask(str(value)) if isinstance(value, str) else repr(value)
