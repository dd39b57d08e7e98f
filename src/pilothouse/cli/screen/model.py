"""The cluster as rows by table, read by feeds, with the indexes that views need.

The rows are those of the page (``pilothouse.ui.rows``). Changed keys are collected until ``take_changes``, so that the
work of a redraw grows with the number of changes.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.cli.screen.feeds import Feed
from pilothouse.client import Client
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.api_resources import Discovery
from pilothouse.ui.rows import MAX_EVENTS, TABLE_OF, Row


def _kind(group: str, version: str, resource: str, kind: str, *, namespaced: bool = True) -> Kind[Any]:
    return Kind(group, version, resource, kind, namespaced, Object)


KINDS: tuple[Kind[Any], ...] = (
    _kind("", "v1", "nodes", "Node", namespaced=False),
    _kind("", "v1", "pods", "Pod"),
    _kind("apps", "v1", "deployments", "Deployment"),
    _kind("apps", "v1", "replicasets", "ReplicaSet"),
    _kind("apps", "v1", "statefulsets", "StatefulSet"),
    _kind("apps", "v1", "daemonsets", "DaemonSet"),
    _kind("batch", "v1", "jobs", "Job"),
    _kind("batch", "v1", "cronjobs", "CronJob"),
    _kind("", "v1", "replicationcontrollers", "ReplicationController"),
    _kind("", "v1", "events", "Event"),
)
KIND_OF = {f"{kind.group}/{kind.resource}/": kind for kind in KINDS}
POD_OWNER, POD_NODE, POD_STATE = 2, 3, 4
WORKLOAD_OWNER = 2
_MORE_EVENTS = MAX_EVENTS + MAX_EVENTS // 5


def split_key(key: str) -> tuple[str, str, str]:
    """Split a key into prefix, namespace and name."""
    group, resource, full_name = key.split("/", 2)
    namespace, _slash, name = full_name.rpartition("/")
    return f"{group}/{resource}/", namespace, name


class Model:
    """The rows of the current or a past state. ``changed`` is called after changes."""

    def __init__(self, client: Client, env: Env, changed: Callable[[], None]) -> None:
        self.tables: dict[str, dict[str, Row]] = {table.name: {} for table in TABLE_OF.values()}
        self.pods_of_node: dict[str, dict[str, None]] = {}
        self.pods_of_owner: dict[str, dict[str, None]] = {}
        self.children: dict[str, dict[str, None]] = {}
        """Keys of workloads by the uid of their controller."""
        self.pods_by_state: dict[str, int] = {}
        self.feeds: list[Feed] = []
        self.unreadable: dict[str, None] = {}
        """Keys of objects that can't be decoded."""
        self._client = client
        self._env = env
        self._changed = changed
        self._dirty: dict[str, dict[str, None]] = {name: {} for name in self.tables}
        self._discovery: Discovery | None = None
        self._discovering = asyncio.Lock()

    async def discover(self) -> Discovery:
        """Discovery of the API server, cached."""
        async with self._discovering:
            if self._discovery is None:
                self._discovery = await self._client.discover()
        return self._discovery

    async def find(self, kind: Kind[Any]) -> Kind[Any] | None:
        """The served version of a resource; None if it is not served."""
        for resource in (await self.discover()).preferred_resources():
            if (resource.group, resource.name) == (kind.group, kind.resource):
                return resource.as_kind()
        return None

    # Reading

    async def follow(self, namespace: str, fallback: str) -> None:
        """Keep all tables up to date until cancelled."""
        self._clear()
        self.feeds = [self._feed(kind, namespace, fallback) for kind in KINDS]
        async with TaskGroup("feeds") as group:
            for feed in self.feeds:
                group.start(feed.run(), name=f"feed of {feed.kind.group_resource}")

    async def read_past(self, namespace: str, fallback: str, revision: str) -> None:
        """Read all tables at a resourceVersion."""
        self._clear()
        self.feeds = [self._feed(kind, namespace, fallback) for kind in KINDS]
        for feed in self.feeds:
            await feed.read_once(revision)

    def _feed(self, kind: Kind[Any], namespace: str, fallback: str) -> Feed:
        return Feed(
            self._client,
            self._env,
            kind,
            put=self.put,
            drop=self.drop,
            changed=self._changed,
            find=self.find,
            namespace=namespace,
            fallback=fallback,
        )

    def _clear(self) -> None:
        for name, rows in self.tables.items():
            self._dirty[name].update(dict.fromkeys(rows))
            rows.clear()
        for index in (self.pods_of_node, self.pods_of_owner, self.children, self.pods_by_state, self.unreadable):
            index.clear()
        self._changed()

    @property
    def synced(self) -> bool:
        """Whether every table was read, or failed."""
        return all(feed.synced or feed.error for feed in self.feeds)

    def errors(self) -> Iterator[str]:
        """The errors of feeds, without duplicates."""
        by_reason: dict[str, list[str]] = {}
        for feed in self.feeds:
            if feed.error:
                by_reason.setdefault(feed.error, []).append(feed.kind.resource)
        for reason, resources in by_reason.items():
            yield f"{', '.join(resources)}: {reason}"
        restricted = sorted({feed.namespace for feed in self.feeds if feed.restricted})
        if restricted:
            yield f"only namespace {restricted[0]}: reading all namespaces is forbidden"
        if self.unreadable:
            yield f"{len(self.unreadable)} objects can't be read, such as {next(iter(self.unreadable))}"

    # Rows

    def put(self, key: str, raw: bytes) -> None:
        """Add or update an object."""
        table = TABLE_OF[split_key(key)[0]]
        try:
            row = table.row(key, raw)
        except (msgspec.MsgspecError, AttributeError, KeyError, TypeError, ValueError):
            # Objects of other API servers may not match the schema; they are skipped.
            self.unreadable[key] = None
            self.drop(key)
            return
        rows = self.tables[table.name]
        previous = rows.get(key)
        if previous == row:
            return
        self._index(table.name, key, previous, row)
        rows[key] = row
        if table.most and len(rows) > _MORE_EVENTS:
            for _at, old in heapq.nsmallest(len(rows) - table.most, ((row[1], key) for key, row in rows.items())):
                del rows[old]
                self._dirty[table.name][old] = None
        self._dirty[table.name][key] = None
        self._changed()

    def drop(self, key: str) -> None:
        """Remove an object."""
        table = TABLE_OF[split_key(key)[0]]
        row = self.tables[table.name].pop(key, None)
        if row is not None:
            self._index(table.name, key, row, None)
            self._dirty[table.name][key] = None
            self._changed()

    def _index(self, table: str, key: str, old: Row | None, new: Row | None) -> None:
        if table == "pods":
            _move(self.pods_of_node, key, old, new, POD_NODE)
            _move(self.pods_of_owner, key, old, new, POD_OWNER)
            for row, step in ((old, -1), (new, 1)):
                if row is not None:
                    self.pods_by_state[row[POD_STATE]] = self.pods_by_state.get(row[POD_STATE], 0) + step
        elif table == "workloads":
            _move(self.children, key, old, new, WORKLOAD_OWNER)

    def take_changes(self) -> dict[str, dict[str, None]]:
        """Return and reset the changed keys by table."""
        changes, self._dirty = self._dirty, {name: {} for name in self.tables}
        return changes

    def namespaces(self) -> list[str]:
        """The namespaces of pods and workloads."""
        return sorted({split_key(key)[1] for name in ("pods", "workloads") for key in self.tables[name]})


def _move(index: dict[str, dict[str, None]], key: str, previous: Row | None, after: Row | None, column: int) -> None:
    old, new = (None if row is None else row[column] for row in (previous, after))
    if old == new:
        return
    if old is not None:
        keys = index[old]
        del keys[key]
        if not keys:
            del index[old]
    if new is not None:
        index.setdefault(new, {})[key] = None
