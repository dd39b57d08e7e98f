"""The lines of each view, as text with names of styles.

Views do not draw; they compute only the visible lines. Texts may contain control characters, which are escaped when
they are drawn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pilothouse.cli.screen.model import KIND_OF, Model, split_key
from pilothouse.cli.screen.ordered import Ordered, SortKey
from pilothouse.ui.rows import TABLES, Row

SIGNS: Mapping[str, str] = {
    "ready": "●",
    "unready": "◐",
    "starting": "◔",
    "pending": "○",
    "failing": "▲",
    "terminating": "✕",
    "succeeded": "✓",
    "unknown": "?",
}
"""The same signs as on the page."""
STATES = tuple(SIGNS)
_MAX_SIGNS = 120
_BAR = 10
_COLUMN = {table.name: {name: sort_keys for sort_keys, name in enumerate(table.columns)} for table in TABLES}
_NODE, _POD, _WORKLOAD, _EVENT = (_COLUMN[name] for name in ("nodes", "pods", "workloads", "events"))


class Cell(NamedTuple):
    """A text and its style: the name of a state, ``dim``, ``bold`` or none."""

    text: str
    style: str = ""


class View(Protocol):
    """Lines with keys."""

    @property
    def title(self) -> str:
        """The name of the view."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings; empty for plain text."""
        ...

    @property
    def sorting(self) -> tuple[str, ...]:
        """The columns by which it can be sorted."""
        ...

    def __len__(self) -> int: ...

    def cells(self, index: int) -> Sequence[Cell]:
        """The cells of a line."""
        ...

    def key(self, index: int) -> str:
        """The key of a line; empty if it has none."""
        ...

    def index(self, key: str) -> int:
        """The line of a key; -1 if it is not shown."""
        ...

    def show(self, *, search: str, namespace: str, sort: int, reverse: bool) -> None:
        """Filter by text and namespace, and sort. Rebuilds all lines."""
        ...

    def update(self, changes: Mapping[str, Iterable[str]]) -> None:
        """Update the lines of changed keys, by table."""
        ...


class _Rows(ABC):
    """A sorted view of one table."""

    title = ""
    table = ""
    columns: tuple[str, ...] = ()
    sorting: tuple[str, ...] = ()

    def __init__(self, model: Model, now: Callable[[], float]) -> None:
        self._model = model
        self._now = now
        self._words: list[str] = []
        self._namespace = ""
        self._sort = 0
        self._reverse = False
        self._keys = Ordered(self._sort_key)

    def __len__(self) -> int:
        return len(self._keys)

    def key(self, index: int) -> str:
        return self._keys[index]

    def index(self, key: str) -> int:
        return self._keys.index(key)

    def cells(self, index: int) -> Sequence[Cell]:
        key = self._keys[index]
        row = self._rows.get(key)
        # Rows are removed immediately, lines with the next update.
        return () if row is None else self.line(key, row)

    def show(self, *, search: str, namespace: str, sort: int, reverse: bool) -> None:
        self._words, self._namespace = search.lower().split(), namespace
        self._sort, self._reverse = sort, reverse
        self._keys.rebuild(self._rows)

    def update(self, changes: Mapping[str, Iterable[str]]) -> None:
        self._keys.update(changes.get(self.table, ()))

    @property
    def _rows(self) -> dict[str, Row]:
        return self._model.tables[self.table]

    def _sort_key(self, key: str) -> SortKey | None:
        row = self._rows.get(key)
        if row is None or not self._matches(key, row):
            return None
        sort_keys = self.sort_keys(key, row)[self._sort]
        return tuple(map(_descending, sort_keys)) if self._reverse else sort_keys

    def _matches(self, key: str, row: Row) -> bool:
        if self._namespace and not key.startswith("/nodes/") and split_key(key)[1] != self._namespace:
            return False
        if not self._words:
            return True
        text = self.text(key, row).lower()
        return all(word in text for word in self._words)

    # What each table defines

    @abstractmethod
    def sort_keys(self, key: str, row: Row) -> Sequence[SortKey]:
        """The sort keys of a row, one for each entry of ``sorting``."""

    @abstractmethod
    def text(self, key: str, row: Row) -> str:
        """The text that is searched."""

    @abstractmethod
    def line(self, key: str, row: Row) -> Sequence[Cell]:
        """The cells of a row."""


class _Descending(str):
    """A string with reversed order."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)

    def __gt__(self, other: str) -> bool:
        return str.__lt__(self, other)


def _descending(value: float | str) -> float | str:
    return _Descending(value) if isinstance(value, str) else -value


class ClusterView(_Rows):
    """The nodes, with a sign for each of their pods."""

    title, table = "Cluster", "nodes"
    columns = ("NODE", "STATUS", "PODS", "OF", "CPU", "MEMORY", "AGE", "NOTE", "")
    sorting = ("name", "pods", "status", "age")

    def sort_keys(self, key: str, row: Row) -> Sequence[SortKey]:
        name = split_key(key)[2]
        pods = len(self._model.pods_of_node.get(name, ()))
        return (name,), (-pods, name), (_severity(row[_NODE["state"]]), name), (-row[_NODE["created"]], name)

    def update(self, changes: Mapping[str, Iterable[str]]) -> None:
        super().update(changes)
        if self.sorting[self._sort] == "pods" and changes.get("pods"):
            self._keys.update(self._rows)

    def text(self, key: str, row: Row) -> str:
        return f"{split_key(key)[2]} {row[_NODE['state']]} {row[_NODE['note']]}"

    def line(self, key: str, row: Row) -> Sequence[Cell]:
        name = split_key(key)[2]
        state = row[_NODE["state"]]
        state_text = "NotReady" if state == "failing" else state.capitalize()
        if row[_NODE["unschedulable"]]:
            state_text += ",SchedulingDisabled"
        pods = self._model.tables["pods"]
        keys = [
            pod
            for pod in self._model.pods_of_node.get(name, ())
            if not self._namespace or split_key(pod)[1] == self._namespace
        ]
        states = sorted((pods[pod][_POD["state"]] for pod in keys), key=STATES.index)
        signs = [Cell(SIGNS[pod], pod) for pod in states[:_MAX_SIGNS]]
        more = [Cell(f" +{len(states) - _MAX_SIGNS}")] if len(states) > _MAX_SIGNS else []
        return (
            Cell(name),
            Cell(state_text, state),
            Cell(str(len(keys))),
            Cell(str(row[_NODE["pods"]]), "dim"),
            Cell(str(row[_NODE["cpu"]])),
            Cell(str(row[_NODE["memory"]])),
            Cell(age(self._now() - row[_NODE["created"]])),
            Cell(row[_NODE["note"]], "failing"),
            *signs,
            *more,
        )


class PodsView(_Rows):
    """All pods."""

    title, table = "Pods", "pods"
    columns = ("", "NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "NODE", "NOTE")
    sorting = ("name", "state", "restarts", "age", "node")

    def sort_keys(self, key: str, row: Row) -> Sequence[SortKey]:
        _prefix, namespace, name = split_key(key)
        return (
            (namespace, name),
            (_severity(row[_POD["state"]]), namespace, name),
            (-row[_POD["restarts"]], namespace, name),
            (-row[_POD["created"]], namespace, name),
            (row[_POD["node"]], namespace, name),
        )

    def text(self, key: str, row: Row) -> str:
        return f"{key[6:]} {row[_POD['state']]} {row[_POD['status']]} {row[_POD['node']]} {row[_POD['note']]}"

    def line(self, key: str, row: Row) -> Sequence[Cell]:
        return pod_line(key, row, self._now())


def pod_line(key: str, row: Row, now: float) -> Sequence[Cell]:
    """The cells of a pod."""
    _prefix, namespace, name = split_key(key)
    state = row[_POD["state"]]
    return (
        Cell(SIGNS[state], state),
        Cell(namespace, "dim"),
        Cell(name),
        Cell(row[_POD["ready"]]),
        Cell(row[_POD["status"]], state),
        Cell(str(row[_POD["restarts"]])),
        Cell(age(now - row[_POD["created"]])),
        Cell(row[_POD["node"]]),
        Cell(row[_POD["note"]], "dim"),
    )


class EventsView(_Rows):
    """The newest events."""

    title, table = "Events", "events"
    # As `kubectl get events`, without the source: messages need the width of the screen.
    columns = ("LAST", "TYPE", "COUNT", "REASON", "OBJECT", "MESSAGE")
    sorting = ("time", "object", "reason")

    def sort_keys(self, key: str, row: Row) -> Sequence[SortKey]:
        at = -row[_EVENT["at"]]
        return (
            (at,),
            (row[_EVENT["namespace"]], row[_EVENT["kind"]], row[_EVENT["name"]], at),
            (row[_EVENT["reason"]], at),
        )

    def text(self, key: str, row: Row) -> str:
        return " ".join(str(row[_EVENT[name]]) for name in ("type", "reason", "message", "kind", "namespace", "name"))

    def line(self, key: str, row: Row) -> Sequence[Cell]:
        return event_line(row, self._now())


def event_line(row: Row, now: float) -> Sequence[Cell]:
    """The cells of an event."""
    warning = "failing" if row[_EVENT["type"]] == "Warning" else ""
    sort_keys = "/".join(filter(None, (row[_EVENT["namespace"]], row[_EVENT["name"]])))
    return (
        Cell(age(now - row[_EVENT["at"]])),
        Cell(row[_EVENT["type"]], warning),
        Cell(str(row[_EVENT["count"]])),
        Cell(row[_EVENT["reason"]]),
        Cell(f"{row[_EVENT['kind']]} {sort_keys}"),
        Cell(row[_EVENT["message"]], warning),
    )


class WorkloadsView:
    """Workloads as a tree: with their revisions, and with their pods if opened."""

    title = "Workloads"
    columns = ("NAMESPACE", "WORKLOAD", "READY", "", "UPDATED", "STATUS", "AGE", "NOTE")
    sorting = ("name", "state")

    def __init__(self, model: Model, now: Callable[[], float]) -> None:
        self._model = model
        self._now = now
        self._opened: set[str] = set()  # only for membership tests
        self._lines: list[tuple[str, int]] = []
        self._line_of: dict[str, int] = {}
        self._words: list[str] = []
        self._namespace = ""
        self._sort, self._reverse = 0, False

    def __len__(self) -> int:
        return len(self._lines)

    def key(self, index: int) -> str:
        return self._lines[index][0]

    def index(self, key: str) -> int:
        return self._line_of.get(key, -1)

    def toggle(self, key: str) -> None:
        """Show the pods of a workload, or hide them."""
        self._opened ^= {key}
        self._build()

    def show(self, *, search: str, namespace: str, sort: int, reverse: bool) -> None:
        self._words, self._namespace = search.lower().split(), namespace
        self._sort, self._reverse = sort, reverse
        self._build()

    def update(self, changes: Mapping[str, Iterable[str]]) -> None:
        if changes.get("workloads") or (changes.get("pods") and self._opened):
            self._build()

    def _build(self) -> None:
        rows = self._model.tables["workloads"]
        uids = {row[_WORKLOAD["uid"]] for row in rows.values()}
        tops = [key for key, row in rows.items() if row[_WORKLOAD["owner"]] not in uids and self._matches(key, row)]
        tops.sort(key=lambda key: self._sort_key(key, rows[key]), reverse=self._reverse)
        self._lines = [line for top in tops for line in self._tree(top, 0)]
        self._line_of = {key: sort_keys for sort_keys, (key, _depth) in enumerate(self._lines)}

    def _matches(self, key: str, row: Row) -> bool:
        prefix, namespace, name = split_key(key)
        if self._namespace and namespace != self._namespace:
            return False
        text = f"{KIND_OF[prefix].kind} {namespace}/{name} {row[_WORKLOAD['state']]} {row[_WORKLOAD['note']]}".lower()
        return all(word in text for word in self._words)

    def _sort_key(self, key: str, row: Row) -> SortKey:
        prefix, namespace, name = split_key(key)
        return (-_urgency(row) if self._sort else 0, namespace, name, prefix)

    def _tree(self, key: str, depth: int) -> Iterator[tuple[str, int]]:
        rows = self._model.tables["workloads"]
        row = rows[key]
        yield key, depth
        children = [child for child in self._model.children.get(row[_WORKLOAD["uid"]], ()) if depth < 4]
        children.sort(key=lambda child: (-_number(rows[child][_WORKLOAD["revision"]]), child))
        for child in children:
            # Only revisions that still have pods.
            if key in self._opened or rows[child][_WORKLOAD["desired"]] or rows[child][_WORKLOAD["total"]]:
                yield from self._tree(child, depth + 1)
        if key in self._opened:
            yield from ((pod, depth + 1) for pod in sorted(self._model.pods_of_owner.get(row[_WORKLOAD["uid"]], ())))

    def cells(self, index: int) -> Sequence[Cell]:
        key, depth = self._lines[index]
        prefix, namespace, name = split_key(key)
        indent = "  " * depth
        row = self._model.tables["pods" if prefix == "/pods/" else "workloads"].get(key)
        if row is None:
            return ()  # Rows are removed immediately, lines with the next update.
        if prefix == "/pods/":
            pod = row
            state = pod[_POD["state"]]
            return (
                Cell(namespace, "dim"),
                Cell(f"{indent}  {SIGNS[state]} {name}"),
                Cell(pod[_POD["ready"]]),
                Cell(""),
                Cell(""),
                Cell(pod[_POD["status"]], state),
                Cell(age(self._now() - pod[_POD["created"]])),
                Cell(pod[_POD["note"]] or pod[_POD["node"]], "dim"),
            )
        desired, ready = row[_WORKLOAD["desired"]], row[_WORKLOAD["ready"]]
        mark = "▾" if key in self._opened else "▸"
        revision = f" (revision {row[_WORKLOAD['revision']]})" if depth and row[_WORKLOAD["revision"]] else ""
        counts = f"{ready}/{desired}"
        if row[_WORKLOAD["succeeded"]] or row[_WORKLOAD["failed"]]:
            counts = f"{row[_WORKLOAD['succeeded']]}/{desired}"
        done = row[_WORKLOAD["succeeded"]] if prefix == "batch/jobs/" else ready
        state, style = _status(prefix, row)
        return (
            Cell(namespace, "dim"),
            Cell(f"{indent}{mark} {KIND_OF[prefix].kind} {name}{revision}"),
            Cell(counts),
            Cell(bar(done, desired), style or "ready"),
            Cell(f"{row[_WORKLOAD['updated']]}/{desired}" if prefix in _ROLLED_OUT else ""),
            Cell(state, style),
            Cell(age(self._now() - row[_WORKLOAD["created"]])),
            Cell(row[_WORKLOAD["note"]], style or "dim"),
        )


_ROLLED_OUT = ("apps/deployments/", "apps/statefulsets/", "apps/daemonsets/")


def _status(prefix: str, row: Row) -> tuple[str, str]:
    """The status of a workload as text, and the state that determines its style."""
    state: str = row[_WORKLOAD["state"]]
    if state:
        return state, {"paused": "pending"}.get(state, state)
    if not row[_WORKLOAD["observed"]]:
        return "not yet observed", "starting"
    desired = row[_WORKLOAD["desired"]]
    if prefix in _ROLLED_OUT and row[_WORKLOAD["updated"]] < desired:
        return "rolling out", "starting"
    if prefix not in ("batch/jobs/", "batch/cronjobs/") and row[_WORKLOAD["available"]] < desired:
        return "not available", "unready"
    if prefix in ("batch/jobs/", "batch/cronjobs/"):
        return ("active", "starting") if row[_WORKLOAD["total"]] else ("", "")
    return "available", "ready"


def _urgency(row: Row) -> int:
    return {
        "failing": 4,
        "terminating": 3,
        "paused": 2,
        "": 1 if row[_WORKLOAD["ready"]] < row[_WORKLOAD["desired"]] else 0,
    }.get(row[_WORKLOAD["state"]], 0)


def _severity(state: str) -> int:
    """Failing first, succeeded last."""
    order = ("failing", "unknown", "pending", "terminating", "unready", "starting", "ready", "succeeded")
    return order.index(state) if state in order else 0


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def bar(done: int, of: int) -> str:
    """A progress bar: ``████░░░░░░``. Only full if everything is done."""
    if of <= 0:
        return "░" * _BAR
    full = _BAR if done >= of else min(done * _BAR // of, _BAR - 1)
    return "█" * full + "░" * (_BAR - full)


def age(seconds: float) -> str:
    """A duration as kubectl prints ages (apimachinery ``pkg/util/duration``)."""
    if seconds < 0:
        return "0s"
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return f"{days // 365}y{days % 365}d" if days % 365 else f"{days // 365}y"
    return f"{days // 365}y"
