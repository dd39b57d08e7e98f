"""The state of a cluster at the end of a run, for comparison with a run without faults.

The objects of the kinds that the program writes are compared: their number by name, and their content. Values that
differ between any two runs are ignored: times, uids, addresses, versions, also in names and keys of maps; and values
that differ between two runs without faults and with different seeds.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.storage import Record
from pilothouse.storage.store import resource_prefix

Path = tuple[str, ...]
Content = dict[Path, object]
_decode = msgspec.json.decode
_METADATA = ("labels", "annotations", "finalizers", "deletionTimestamp", "ownerReferences")
_ANNOTATIONS = ("deployment.kubernetes.io/revision",)
"""A Deployment that had an old template for a moment has one more revision, and the same final state."""
_UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_SHOWN = 10


class EndState(msgspec.Struct, frozen=True):
    """The objects by resource and name. Generated names are one, and so are those that differ in uids or addresses."""

    objects: dict[tuple[str, str], list[Content]]


class Difference(msgspec.Struct, frozen=True):
    """A difference from the runs without faults."""

    resource: str
    text: str


def end_state(records: Iterable[Record], prefixes: Iterable[str]) -> EndState:
    """The end state of the resources with these prefixes."""
    wanted = frozenset(prefixes)
    contents: dict[tuple[str, str], list[Content]] = {}
    for record in records:
        prefix = resource_prefix(record.key)
        if prefix in wanted:
            obj = _decode(record.value)
            group, resource, _rest = prefix.split("/")
            name = f"{resource}.{group}" if group else resource
            contents.setdefault((name, _name(obj["metadata"])), []).append(_content(obj))
    return EndState(contents)


def differences(expected: EndState, other: EndState, end: EndState) -> list[Difference]:
    """The differences of ``end`` from two runs without faults: ``expected`` has the same seed, and values in which
    ``other`` differs from it are random."""
    result: list[Difference] = []
    for place in sorted(expected.objects.keys() | end.objects.keys()):
        resource, name = place
        wanted, has = expected.objects.get(place, []), end.objects.get(place, [])
        if len(wanted) != len(has):
            text = f"{resource} {name}: {_count(len(has))}, and without faults {_count(len(wanted))}"
            result.append(Difference(resource, text))
        elif len(wanted) == 1:
            result += _changed(resource, name, wanted[0], has[0], other.objects.get(place, []))
    return result


def described(differences: list[Difference]) -> str:
    """The differences, one a line."""
    lines = [difference.text for difference in differences[:_SHOWN]]
    if len(differences) > _SHOWN:
        lines.append(f"and {len(differences) - _SHOWN} more")
    return "the final state differs from that without faults:\n  " + "\n  ".join(lines)


def _changed(resource: str, name: str, wanted: Content, has: Content, others: list[Content]) -> list[Difference]:
    by_chance = set()
    for other in others[:1]:
        by_chance = {path for path in wanted.keys() | other.keys() if wanted.get(path) != other.get(path)}
    result = []
    for path in sorted(wanted.keys() | has.keys()):
        if path not in by_chance and wanted.get(path) != has.get(path):
            difference_text = f"{_shown(has, path)}, and without faults {_shown(wanted, path)}"
            result.append(Difference(resource, f"{resource} {name}: .{'.'.join(path)} is {difference_text}"))
    return result


def _count(number: int) -> str:
    return "none" if not number else str(number)


def _shown(content: Content, path: Path) -> str:
    return repr(content[path])[:80] if path in content else "not there"


def _name(meta: Mapping[str, Any]) -> str:
    name = f"{meta['generateName']}*" if meta.get("generateName") else _masked(meta["name"])
    return f"{meta['namespace']}/{name}" if meta.get("namespace") else name


def _content(obj: dict[str, Any]) -> Content:
    meta: dict[str, Any] = {key: value for key, value in obj["metadata"].items() if key in _METADATA}
    meta["annotations"] = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in _ANNOTATIONS}
    body = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    content: Content = {}
    _flatten({"metadata": meta, **body}, (), content, obj["metadata"].get("generation"))
    return content


def _flatten(value: Any, path: Path, content: Content, generation: object) -> None:
    if isinstance(value, dict):
        masked: dict[str, list[Content]] = {}
        for key, item in value.items():
            masked_key = _masked(key)
            if masked_key == key:
                _flatten(item, (*path, key), content, generation)
                continue
            below: Content = {}
            _flatten(item, (), below, generation)
            masked.setdefault(masked_key, []).append(below)
        for masked_key, parts in masked.items():
            # The order of several uids is random.
            for number, below in enumerate(sorted(parts, key=_order), 1):
                key = masked_key if len(parts) == 1 else f"{masked_key} ({number})"
                content.update({(*path, key, *rest): content_value for rest, content_value in below.items()})
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _flatten(item, (*path, str(number)), content, generation)
    elif path and path[-1] == "observedGeneration":
        content[path] = "the newest" if value == generation else "an older one"
    else:
        content[path] = _masked(value) if isinstance(value, str) else value


def _order(content: Content) -> str:
    return repr(sorted(content.items(), key=repr))


def _masked(text: str) -> str:
    if "-" in text:
        text = _UID.sub("UID", _TIME.sub("TIME", text))
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text
    return "ADDRESS"
