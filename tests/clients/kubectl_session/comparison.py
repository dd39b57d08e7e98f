"""Answers of two sides, held against each other field by field, once what is never the same has been masked.

``differences`` gives what is left; ``causes`` says which of it lies in sixteen minor versions.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import yaml
from tests.clients.kubectl_session.sides import Answer
from tests.clients.kubectl_session.telling import Step

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
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+m?s\b( \(x\d+ over [\dhms]+\))?", "<age>"),
        (rf"-{_ALPHABET}{{7,10}}(?=\b)(?!-{_ALPHABET}{{2,4}}\b)", "-<hash>"),
        (rf"-{_ALPHABET}{{5}}\b(?!-)", "-<name>"),
        (rf"(?<=pod-template-hash=){_ALPHABET}+", "<hash>"),
        (r"simulated://[0-9a-f]{64}", "simulated://<container>"),
        (r"(?m)^[IWE]\d{4} [\d:.]+ +\d+ ", "<log> "),
        # What kubectl's own watch says when it is ended while it begins.
        (r"(?m)^<log> reflector\.go:.*\n", ""),
        # Servers before v1.23 call a generated name that is still taken a timeout (kubernetes#104699). Whether the pod
        # before it has gone by then is a matter of milliseconds.
        (r"(?m)^ *Warning  FailedCreate .*The POST operation against Pod could not be completed at this time.*\n", ""),
        # Lines that go on stand as far right as the longest name has pushed them.
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
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


@dataclass(frozen=True)
class Difference:
    """One side has ``real``, the other ``ours``, at this place of a step's answer.

    In text a place is ``out`` or ``err`` and a line is on one side only. In objects it is a path.
    """

    step: str
    place: str
    real: str
    ours: str

    def __str__(self) -> str:
        return f"{self.step} | {self.place}\n    real: {self.real}\n    ours: {self.ours}"


def differences(script: tuple[Step, ...], real: Mapping[str, Answer], ours: Mapping[str, Answer]) -> list[Difference]:
    """What differs, in the order of the script."""
    found: list[Difference] = []
    for step in script:
        if not step.watch:
            found.extend(_compare(step, real[step.name], ours[step.name]))
    return found


def _compare(step: Step, real: Answer, ours: Answer) -> Iterator[Difference]:
    if real.code != ours.code:
        yield Difference(step.name, "exit code", str(real.code), str(ours.code))
    yield from _compare_text(step, "err", real.err, ours.err)
    if re.search(r"(^| )-o (yaml|json)\b", step.line) and real.out.strip() and ours.out.strip():
        yield from _compare_objects(step, list(yaml.safe_load_all(real.out)), list(yaml.safe_load_all(ours.out)))
    else:
        yield from _compare_text(step, "out", real.out, ours.out)


# Text


def mask(text: str) -> str:
    """Without what is never the same twice."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


def _lines(step: Step, text: str) -> list[str]:
    # Columns are as wide as what stands in them.
    lines = [re.sub(r"(?<=\S) {2,}", "  ", line).rstrip() for line in mask(text).splitlines()]
    return sorted(lines) if step.unordered else _sort_events(lines)


def _sort_events(lines: list[str]) -> list[str]:
    """The events at the end of a description come in any order within a second, and are counted if they come again."""
    result: list[str] = []
    events: list[str] | None = None
    for line in [*lines, ""]:
        if events is not None and line:
            events.append(line)
            continue
        if events is not None:
            result.extend(sorted(set(events)))
            events = None
        if line.startswith("Events:"):
            events = []
        result.append(line)
    return result


def _compare_text(step: Step, place: str, real: str, ours: str) -> Iterator[Difference]:
    left, right = _lines(step, real), _lines(step, ours)
    for tag, from_left, to_left, from_right, to_right in SequenceMatcher(
        None, left, right, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            continue
        # Two lines belong together if they begin alike, as rows of a table and fields of a description do.
        here, there = left[from_left:to_left], right[from_right:to_right]
        for one in here:
            other = next((line for line in there if _begin(line) == _begin(one)), ABSENT)
            if other is not ABSENT:
                there.remove(other)
            yield Difference(step.name, place, one, other)
        for other in there:
            yield Difference(step.name, place, ABSENT, other)


def _begin(line: str) -> str:
    return re.split(r": |  ", line.strip(), maxsplit=1)[0]


# Objects


def _compare_objects(step: Step, real: Any, ours: Any) -> Iterator[Difference]:
    left, right = dict(_flatten(_sorted(real), "")), dict(_flatten(_sorted(ours), ""))
    for path in sorted(left.keys() | right.keys()):
        one, other = left.get(path, ABSENT), right.get(path, ABSENT)
        if one != other:
            yield Difference(step.name, path, one, other)


def _sorted(documents: list[Any]) -> list[Any]:
    """Objects with generated names, in an order that does not hang on these."""
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
    """Conditions and managers by their names, for when they came says little; all else by position."""
    for index, member in enumerate(members):
        match member:
            case {"manager": manager, "operation": operation}:
                # Whether it wrote a subresource is a field of its own. The same manager of both is one here.
                yield f"{manager} {operation}", member
            case {"type": kind, "status": _}:
                yield kind, member
            case _:
                yield str(index), member


def _leaf(path: str, value: Any) -> str:
    if path.endswith(
        (
            ".resourceVersion",
            ".nodePort",
            ".machineID",
            ".bootID",
            ".systemUUID",
            ".status.certificate",
            ".pod-template-hash",
        )
    ):
        return "<some>"
    return mask(str(value)) if isinstance(value, str) else repr(value)
