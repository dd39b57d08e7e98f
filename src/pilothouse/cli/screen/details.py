"""One object as lines of text: YAML, events, history, and explanation. Values of Secrets are masked, as on the page."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from pilothouse.api.core import EVENTS
from pilothouse.cli.history import described, version_lines, versions
from pilothouse.cli.resource_arguments import times_of_revisions
from pilothouse.cli.screen.views import Cell, age
from pilothouse.cli.terminal import escaped
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.machinery.differences import ABSENT, Difference
from pilothouse.ui.objects import HIDDEN, has_secret_values, without_values
from pilothouse.ui.rows import event_row
from pilothouse.why import Reference, ServerEvidence, explain, text_lines

PARTS = ("yaml", "events", "history", "why")
_MAX_LINES = 20_000
_MAX_VERSIONS = 200


class ObjectReference(msgspec.Struct, frozen=True):
    """An object by resource, namespace and name."""

    resource: Resource
    namespace: str
    name: str

    @property
    def title(self) -> str:
        """``Pod default/web-1``."""
        return f"{self.resource.kind} {'/'.join(filter(None, (self.namespace, self.name)))}"


class TextView:
    """Lines of text, wrapped to a width."""

    columns: tuple[str, ...] = ()
    sorting: tuple[str, ...] = ()

    def __init__(self, title: str, lines: Sequence[Cell]) -> None:
        self.title = title
        self._all = lines
        self._shown: list[Cell] = list(lines)
        self._width = 0
        self._words: list[str] = []

    def __len__(self) -> int:
        return len(self._shown)

    def cells(self, index: int) -> Sequence[Cell]:
        """The single cell of a line."""
        return (self._shown[index],)

    def key(self, _index: int) -> str:
        """Always empty: lines of text cannot be opened."""
        return ""

    def index(self, _key: str) -> int:
        """Always -1."""
        return -1

    def replace(self, lines: Sequence[Cell]) -> None:
        """Replace the lines."""
        self._all = lines
        self._wrap()

    def set_width(self, width: int) -> None:
        """Wrap to this width."""
        if width != self._width:
            self._width = width
            self._wrap()

    def show(self, *, search: str, namespace: str, sort: int, reverse: bool) -> None:  # a View's
        """Show only lines that contain all words."""
        self._words = search.lower().split()
        self._wrap()

    def update(self, changes: Mapping[str, Any]) -> None:
        """Nothing to do: the text does not change."""

    def _wrap(self) -> None:
        matching = [line for line in self._all if all(word in line.text.lower() for word in self._words)]
        self._shown = [piece for line in matching for piece in _wrapped(line, self._width)]


def _wrapped(line: Cell, width: int) -> Iterator[Cell]:
    text = escaped(line.text)
    if width <= 20 or len(text) <= width:
        yield Cell(text, line.style)
        return
    indent = " " * min(len(text) - len(text.lstrip()) + 2, width // 2)
    yield Cell(text[:width], line.style)
    rest, step = text[width:], width - len(indent)
    for start in range(0, len(rest), step):
        yield Cell(indent + rest[start : start + step], line.style)


async def part_lines(
    client: Client,
    discovery: Discovery,
    reference: ObjectReference,
    part: str,
    *,
    revision: str,
    now: datetime.datetime,
) -> list[Cell]:
    """One part of the details of an object. ``revision`` is empty for the current state. Errors of reads are shown as
    lines."""
    try:
        if part == "yaml":
            lines = await _yaml(client, reference, revision)
        elif part == "events":
            lines = await _events(client, reference, revision, now)
        elif part == "history":
            lines = await _history(client, reference)
        elif revision:
            lines = [Cell("Why explains the current state only, not past ones: press n.", "pending")]
        else:
            lines = await _why(client, discovery, reference)
    except (ApiError, OSError, ValueError, msgspec.MsgspecError) as error:
        return [Cell(str(error), "failing")]
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [Cell(f"and {len(lines) - _MAX_LINES} more lines", "dim")]
    return lines


async def _yaml(client: Client, reference: ObjectReference, revision: str) -> list[Cell]:
    kind = reference.resource.as_kind()
    if revision:
        then = await client.list(
            kind.raw,
            reference.namespace,
            field_selector=f"metadata.name={reference.name}",
            resource_version=revision,
            resource_version_match="Exact",
        )
        if not then.items:
            return [Cell(f"{reference.title} was not there then", "pending")]
        document = {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.json.decode(then.items[0])}
    else:
        try:
            raw = await client.get(kind.raw, reference.name, reference.namespace)
            document = msgspec.json.decode(raw)
        except NotFound:
            return [
                Cell(
                    f"{reference.title} is not there; its history (h) and why (w) may say what became of it", "pending"
                )
            ]
    (document.get("metadata") or {}).pop("managedFields", None)
    text = yaml.safe_dump(without_values(kind, document), sort_keys=False, allow_unicode=True, width=10_000)
    return [Cell(line) for line in text.splitlines()]


async def _events(client: Client, reference: ObjectReference, revision: str, now: datetime.datetime) -> list[Cell]:
    selector = f"involvedObject.name={reference.name},involvedObject.kind={reference.resource.kind}"
    result = await client.list(
        EVENTS.raw,
        reference.namespace,
        field_selector=selector,
        resource_version=revision,
        resource_version_match="Exact" if revision else "",
    )
    rows = sorted((event_row("", bytes(raw)) for raw in result.items), key=lambda row: row[1], reverse=True)
    lines = []
    for _key, at, type_, reason, message, *_involved, count, source in rows:
        times = f" ({count} times)" if count > 1 else ""
        text = f"{age(now.timestamp() - at):>7}  {type_:8} {reason}: {message}{times}, {source}"
        lines.append(Cell(text, "failing" if type_ == "Warning" else ""))
    return lines or [Cell("There are no events about it", "dim")]


async def _history(client: Client, reference: ObjectReference) -> list[Cell]:
    oldest, documents = await versions(client, reference.resource.as_kind(), reference.namespace, reference.name)
    time_of = await times_of_revisions(client)
    lines = []
    latest_versions = list(described(documents, time_of))[-_MAX_VERSIONS:]
    for version in reversed(latest_versions):
        if has_secret_values(reference.resource.as_kind()):
            version = msgspec.structs.replace(version, changes=tuple(map(_hidden, version.changes)))
        for number, line in enumerate(version_lines(version, all_fields=True)):
            lines.append(Cell(line, _style(line) if number else "bold"))
    if len(documents) > len(latest_versions):
        lines.append(
            Cell(f"and {len(documents) - len(latest_versions)} earlier versions; see pilothouse history", "dim")
        )
    return lines or [Cell(f"The API server knows nothing of {reference.title} since resourceVersion {oldest}", "dim")]


def _hidden(change: Difference) -> Difference:
    old, new = (value if value is ABSENT else HIDDEN for value in (change.before, change.after))
    return Difference(change.path, old, new)


def _style(line: str) -> str:
    return {"+": "added", "-": "removed"}.get(line.lstrip()[:1], "")


async def _why(client: Client, discovery: Discovery, reference: ObjectReference) -> list[Cell]:
    target = Reference(reference.resource.group_resource, reference.namespace, reference.name)
    explanation = await explain(ServerEvidence(client, discovery), target)
    return [Cell(line) for line in text_lines(explanation)]
