"""The API server process under load, killed repeatedly: acknowledged writes and delivered events survive.

Writers each own their objects, so that what must be found of one is the newest state that was acknowledged, or the one
of the single request that was under way. A watcher must never have been shown what did not survive.
"""

import http.client
import json
import random
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.connections import insecure_context
from tests.programs import Program, free_port, pilothouse, until

WRITERS = 6
OBJECTS = 5
PATH = "/api/v1/namespaces/default/configmaps"


@dataclass
class ExpectedState:
    """The state known to one writer or watcher. Version 0 is a missing object."""

    known: dict[str, set[int]] = field(default_factory=dict)
    """Object → the numbers that it may hold: one, or with a request without an answer two."""
    acknowledged: int = 0


class Server:
    """``pilothouse apiserver`` on one data directory, start after start."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.token = ""
        self.program: Program | None = None

    def start(self) -> None:
        words = ["apiserver", "--data-dir=data", f"--port={self.port}", "--kubeconfig=kubeconfig"]
        self.program = pilothouse(self.directory, *words)
        self.program.until("API server ready")
        document = (self.directory / "kubeconfig").read_text()
        self.token = next(line.split()[-1] for line in document.splitlines() if "token:" in line)

    def kill(self) -> None:
        assert self.program is not None
        self.program.kill()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=insecure_context())

    def request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def write(server: Server, writer: int, books: ExpectedState, rng: random.Random) -> None:
    """Create, change and delete until the server is killed."""
    with closing(server.connect()) as connection:
        _write(server, connection, writer, books, rng)


def _write(
    server: Server, connection: http.client.HTTPConnection, writer: int, books: ExpectedState, rng: random.Random
) -> None:
    number = max((max(numbers) for numbers in books.known.values()), default=0)
    while True:
        name = f"w{writer}-{rng.randrange(OBJECTS)}"
        acknowledged = books.known.setdefault(name, {0})
        assert len(acknowledged) == 1, "between two requests everything is decided"
        (now,) = acknowledged
        number += 1
        body = {"metadata": {"name": name}, "data": {"number": str(number), "filler": "x" * rng.randrange(3000)}}
        if not now:
            method, path, new = "POST", PATH, number
        elif rng.random() < 0.3:
            method, path, new = "DELETE", f"{PATH}/{name}", 0
        else:
            method, path, new = "PUT", f"{PATH}/{name}", number
        books.known[name] = {now, new}
        try:
            status, answer = server.request(connection, method, path, body if method != "DELETE" else None)
        except (OSError, http.client.HTTPException, ValueError):
            return
        assert status in (200, 201), answer
        books.known[name] = {new}
        books.acknowledged += 1


def watch(server: Server, versions: dict[str, tuple[int, int]]) -> None:
    """Remember the newest revision and number that was shown of each object."""
    with closing(server.connect()) as connection, suppress(OSError, http.client.HTTPException, ValueError):
        connection.request("GET", f"{PATH}?watch=true", headers={"Authorization": f"Bearer {server.token}"})
        with closing(connection.getresponse()) as answer:
            while line := answer.readline():
                event = json.loads(line)
                meta = event["object"]["metadata"]
                number = 0 if event["type"] == "DELETED" else int(event["object"].get("data", {}).get("number", 0))
                versions[meta["name"]] = (int(meta["resourceVersion"]), number)


@pytest.mark.timeout(1800)
def test_killed_server_loses_no_acknowledged_write(tmp_path: Path, soak: bool) -> None:
    server = Server(tmp_path)
    rng = random.Random(5)
    books = [ExpectedState() for _ in range(WRITERS)]
    server.start()
    with closing(server.connect()) as connection:
        beginning = server.request(connection, "GET", PATH)[1]
    rounds = 100 if soak else 5
    for _ in range(rounds):
        versions: dict[str, tuple[int, int]] = {}
        failures: list[BaseException] = []
        work = [partial(write, server, number, book, random.Random(rng.random())) for number, book in enumerate(books)]
        work.append(partial(watch, server, versions))
        threads = [threading.Thread(target=_caught, args=(item, failures)) for item in work]
        before = sum(book.acknowledged for book in books)
        for thread in threads:
            thread.start()
        enough = before + rng.randrange(20, 300)
        until(partial(_is_loaded, books, enough, failures), "there is a load", 60)
        server.kill()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert failures == []
        server.start()
        with closing(server.connect()) as connection:
            _status, response = server.request(connection, "GET", PATH)
        _check(response, books, versions)
        _check_history(server, beginning, response)
    server.kill()


def _check_history(server: Server, beginning: Any, listed: Any) -> None:
    """A watch from before the first kill delivers every change since, and so the current state."""
    state = {item["metadata"]["name"]: item for item in beginning["items"]}
    query = f"watch=true&timeoutSeconds=1&resourceVersion={beginning['metadata']['resourceVersion']}"
    with closing(server.connect()) as connection:
        connection.request("GET", f"{PATH}?{query}", headers={"Authorization": f"Bearer {server.token}"})
        with closing(connection.getresponse()) as answer:
            assert answer.status == 200
            events = [json.loads(line) for line in answer.read().splitlines()]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert revisions == sorted(set(revisions))
    for event in events:
        name = event["object"]["metadata"]["name"]
        assert (event["type"] == "ADDED") == (name not in state)
        state.pop(name, None)
        if event["type"] != "DELETED":
            state[name] = {key: value for key, value in event["object"].items() if key not in ("kind", "apiVersion")}
    assert state == {item["metadata"]["name"]: item for item in listed["items"]}


def _is_loaded(books: list[ExpectedState], enough: int, failures: list[BaseException]) -> bool:
    return bool(failures) or sum(book.acknowledged for book in books) >= enough


def _caught(work: Callable[[], None], failures: list[BaseException]) -> None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001  # the test raises it
        failures.append(error)


def _check(listed: Any, books: list[ExpectedState], versions: dict[str, tuple[int, int]]) -> None:
    stored = {item["metadata"]["name"]: item for item in listed["items"] if item["metadata"]["name"].startswith("w")}
    numbers = {name: int(item["data"]["number"]) for name, item in stored.items()}
    for book in books:
        for name, possible in book.known.items():
            assert numbers.get(name, 0) in possible, f"{name} holds {numbers.get(name, 0)}, and not one of {possible}"
            book.known[name] = {numbers.get(name, 0)}
    newest = int(listed["metadata"]["resourceVersion"])
    for name, (revision, number) in versions.items():
        assert revision <= newest, f"a watcher saw {name} at revision {revision}, the store ends at {newest}"
        item = stored.get(name)
        if item is not None and int(item["metadata"]["resourceVersion"]) == revision:
            assert numbers[name] == number
        elif item is not None:
            assert int(item["metadata"]["resourceVersion"]) > revision, f"{name} went back behind what was shown"
