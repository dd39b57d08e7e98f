"""Clients that record requests and responses, and watchers that record events.

Each is a thread with a connection of its own, which repeats nothing by itself: a request without an answer has an
unknown outcome.
"""

import http.client
import json
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from tests.robustness.linearizability import Operation, Outcome, Verb
from tests.robustness.watch_guarantees import Event, Snapshot, Watch

NAMESPACE = "robustness"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
LABEL = "team"
TIMEOUT = 15.0
KEYS = 4
EPOCH_SECONDS = 15.0
"""How long the same keys are used: this bounds the histories."""
_FAILURES = (OSError, http.client.HTTPException, ValueError)


class Answer(msgspec.Struct, frozen=True):
    """Status and document."""

    status: int
    document: Any


class Shared:
    """State shared by all clients."""

    def __init__(self, token: str, address: Callable[[], str]) -> None:
        self.token = token
        self.address = address
        """The address (HOST:PORT) for the next connection."""
        self.over = threading.Event()
        self.began = time.monotonic()
        self.known = 0
        """The newest revision observed by any client."""
        self.acknowledged = 0
        """Writes."""
        self.statuses: Counter[str] = Counter()
        self.errors: list[str] = []
        self.lock = threading.Lock()
        self.context = ssl._create_unverified_context()

    def saw(self, revision: int, *, written: bool = False) -> None:
        """Record an observed revision."""
        with self.lock:
            self.known = max(self.known, revision)
            self.acknowledged += written


class Connection:
    """A client with one connection."""

    def __init__(self, shared: Shared, address: Callable[[], str] | None = None) -> None:
        self._shared = shared
        self._address = address or shared.address
        self._http: http.client.HTTPSConnection | None = None
        self._response: http.client.HTTPResponse | None = None

    def open(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        """Send a request, and return when its answer begins. A PATCH is a merge patch. Raises ``OSError`` or
        ``HTTPException``."""
        if self._http is None:
            self._http = http.client.HTTPSConnection(self._address(), timeout=TIMEOUT, context=self._shared.context)
        media_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._shared.token}", "Content-Type": media_type}
        self._http.request(method, path, None if body is None else json.dumps(body), headers)
        self._response = self._http.getresponse()
        return self._response

    def request(self, method: str, path: str, body: Any = None) -> Answer | None:
        """Send a request; returns the response, or None if there was none."""
        try:
            response = self.open(method, path, body)
            answer = Answer(response.status, json.loads(response.read()))
        except _FAILURES as error:
            self.close()
            self._shared.statuses[type(error).__name__] += 1
            return None
        self._shared.statuses[f"{method} {answer.status}"] += 1
        return answer

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._response is not None:
            self._response.close()  # or the socket stays open
            self._response = None
        if self._http is not None:
            self._http.close()
            self._http = None


class Client:
    """Continuously creates, reads, updates and deletes a few objects."""

    def __init__(self, shared: Shared, number: int, pause: float) -> None:
        self._shared = shared
        self._number = number
        self._pause = pause
        self._rng = random.Random(number)
        self._connection = Connection(shared)
        self._step = 0
        self._revisions: dict[str, int] = {}
        self.operations: list[tuple[str, Operation]] = []
        """With the names of their objects."""
        self.snapshots: list[Snapshot] = []

    def run(self) -> None:
        """Run until the end of the traffic."""
        try:
            while not self._shared.over.is_set():
                self._one()
                self._shared.over.wait(self._rng.uniform(0.2, 1.8) * self._pause)
        except Exception as error:
            self._shared.errors.append(f"client {self._number}: {error!r}")
            raise
        finally:
            self._connection.close()

    def _one(self) -> None:
        epoch = int((time.monotonic() - self._shared.began) / EPOCH_SECONDS)
        name = f"e{epoch}-{self._rng.randrange(KEYS)}"
        self._step += 1
        choice = self._rng.random()
        known = self._revisions.get(name, 0)
        if choice < 0.05:
            self._list()
        elif choice < 0.4:
            self._request(name, Verb.GET, "GET", f"{CONFIG_MAPS}/{name}")
        elif choice < 0.6 or not known:
            self._write(name, Verb.CREATE, "POST", CONFIG_MAPS, 0)
        elif choice < 0.8:
            self._write(name, Verb.UPDATE, "PUT", f"{CONFIG_MAPS}/{name}", known)
        elif choice < 0.88:  # an update of whatever there is
            self._write(name, Verb.UPDATE, "PATCH", f"{CONFIG_MAPS}/{name}", 0)
        else:
            expected = known if self._rng.random() < 0.5 else 0
            body = {"preconditions": {"resourceVersion": str(expected)}} if expected else None
            self._request(name, Verb.DELETE, "DELETE", f"{CONFIG_MAPS}/{name}", body, expected=expected)

    def _write(self, name: str, verb: Verb, method: str, path: str, expected: int) -> None:
        value = f"{self._number}.{self._step}"
        labels = {LABEL: self._rng.choice("xy")}
        metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE, "labels": labels}
        if expected:
            metadata["resourceVersion"] = str(expected)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}
        self._request(name, verb, method, path, body, expected=expected, value=value)

    def _request(
        self, name: str, verb: Verb, method: str, path: str, body: Any = None, *, expected: int = 0, value: str = ""
    ) -> None:
        call = time.monotonic_ns()
        answer = self._connection.request(method, path, body)
        end = time.monotonic_ns()
        outcome, revision = outcome_of(answer), 0
        if answer is not None and outcome is Outcome.OK and verb is not Verb.DELETE:
            revision = int(answer.document["metadata"]["resourceVersion"])
            value = answer.document["data"]["value"]
            self._revisions[name] = revision
        if outcome is Outcome.OK:
            self._shared.saw(revision, written=verb is not Verb.GET)
        elif outcome is Outcome.NOT_FOUND:
            self._revisions.pop(name, None)
        if outcome is Outcome.UNKNOWN and verb is Verb.GET:
            return
        operation = Operation(
            verb=verb,
            outcome=outcome,
            call=call,
            end=end,
            value=value,
            expected=expected,
            revision=revision,
            client=self._number,
        )
        self.operations.append((name, operation))

    def _list(self) -> None:
        known = self._shared.known
        answer = self._connection.request("GET", CONFIG_MAPS)
        if answer is not None and answer.status == 200:
            self.snapshots.append(snapshot_of(answer.document, known, f"client {self._number}"))
            self._shared.saw(self.snapshots[-1].revision)


def outcome_of(answer: Answer | None) -> Outcome:
    """The outcome of a request by its response; unknown unless the response is definite."""
    if answer is None:
        return Outcome.UNKNOWN
    if answer.status in (200, 201):
        return Outcome.OK
    if answer.status == 409 and answer.document.get("reason") in ("AlreadyExists", "Conflict"):
        return Outcome.CONFLICT
    if answer.status == 404 and answer.document.get("details", {}).get("kind") == "configmaps":
        return Outcome.NOT_FOUND
    return Outcome.UNKNOWN


def snapshot_of(document: Any, known: int, client: str, label: str | None = None) -> Snapshot:
    """The content of a list."""
    state = {item["metadata"]["name"]: _data(item).get("value", "") for item in document["items"]}
    return Snapshot(int(document["metadata"]["resourceVersion"]), state, known, "", label, client)


def _data(item: Mapping[str, Any]) -> Any:
    return item.get("data") or {}


class Watcher:
    """Lists once, and then watches, resuming where the previous stream ended."""

    def __init__(
        self, shared: Shared, name: str, *, label: str | None = None, address: Callable[[], str] | None = None
    ) -> None:
        self._shared = shared
        self.name = name
        self._label = label
        self._rng = random.Random(name)
        self._connection = Connection(shared, address)
        self._revision = 0
        self.watches: list[Watch] = []
        self.snapshots: list[Snapshot] = []
        self.expired = 0
        """The number of relists after 410."""

    def run(self) -> None:
        """Run until the end of the traffic and until the newest observed revision was received."""
        try:
            follows = False
            while not self._shared.over.is_set() or self._revision < self._shared.known:
                if not self._revision and not self._list():
                    self._shared.over.wait(0.2)
                    continue
                follows = self._watch(follows=follows)
        except Exception as error:
            self._shared.errors.append(f"{self.name}: {error!r}")
            raise
        finally:
            self._connection.close()

    def _query(self) -> str:
        return f"&labelSelector={quote(f'{LABEL}={self._label}')}" if self._label else ""

    def _list(self) -> bool:
        known = self._shared.known
        answer = self._connection.request("GET", f"{CONFIG_MAPS}?{self._query()}")
        if answer is None or answer.status != 200:
            self._connection.close()
            return False
        self.snapshots.append(snapshot_of(answer.document, known, self.name, self._label))
        self._revision = self.snapshots[-1].revision
        self._shared.saw(self._revision)
        return True

    def _watch(self, *, follows: bool) -> bool:
        """Read one stream. Returns whether the next one can resume from it."""
        start, events = self._revision, list[Event]()
        seconds = self._rng.randrange(4, 40)
        path = f"{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={start}"
        begun = False
        try:
            response = self._connection.open("GET", path + self._query())
            self._shared.statuses[f"WATCH {response.status}"] += 1
            if response.status == 410:
                self._revision = 0
            elif response.status == 200:
                begun = True
                while line := response.readline():
                    if not line.endswith(b"\n"):
                        break  # the rest has not been received
                    event = event_of(json.loads(line))
                    if event is None:
                        self._revision = 0
                        break
                    events.append(event)
                    self._revision = max(self._revision, event.revision)
                    if self._shared.over.is_set() and self._revision >= self._shared.known:
                        break
        except _FAILURES as error:
            self._shared.statuses[f"WATCH {type(error).__name__}"] += 1
        self._connection.close()
        if begun:
            self.watches.append(Watch(start, events, "", self._label, self.name, follows))
        else:
            self._shared.over.wait(0.1)
        if not self._revision:
            self.expired += 1
            return False
        return begun or follows


def event_of(document: Any) -> Event | None:
    """An event of the stream; None if the resourceVersion is too old."""
    obj = document["object"]
    if document["type"] == "ERROR":
        assert obj.get("code") in (410, 500, 504), document
        return None
    meta = obj["metadata"]
    revision = int(meta["resourceVersion"])
    if document["type"] == "BOOKMARK":
        return Event("BOOKMARK", revision)
    return Event(document["type"], revision, meta["name"], _data(obj).get("value", ""))
