"""Malformed and hostile requests to the API server process affect only their sender.

During each, another client continuously sends a small request. Every bad request soon gets a 4xx; the server neither
grows nor stops.
"""

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.clients.test_durability import Server
from tests.connections import insecure_context
from tests.custom_resources import DEFINITIONS, definition, version
from tests.tables import cases

MAPS = "/api/v1/namespaces/default/configmaps"
ONE = f"{MAPS}/one"
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
SECONDS = 10.0
"""For one answer, on a machine that runs other tests beside this one."""
MEGABYTES = 400.0


class Target(Server):
    """A server in memory."""

    def start(self) -> None:
        from tests.programs import pilothouse

        words = ["apiserver", f"--port={self.port}", "--kubeconfig=kubeconfig"]
        self.program = pilothouse(self.directory, *words)
        self.program.until("API server ready")
        document = (self.directory / "kubeconfig").read_text()
        self.token = next(line.split()[-1] for line in document.splitlines() if "token:" in line)

    def megabytes(self) -> float:
        assert self.program is not None
        pages = int(Path(f"/proc/{self.program.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def send(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> tuple[int, bytes]:
        with closing(self.connect()) as connection:
            connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", "Content-Type": kind})
            with closing(connection.getresponse()) as answer:
                return answer.status, answer.read()

    def raw(self) -> ssl.SSLSocket:
        return insecure_context().wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = Target(tmp_path_factory.mktemp("bad"))
    target.start()
    try:
        assert (
            target.send("POST", MAPS, json.dumps({"metadata": {"name": "one"}, "data": {"a": "b"}}).encode())[0] == 201
        )
        yield target
    finally:
        target.kill()


@pytest.fixture(autouse=True)
def neighbour(server: Target) -> Iterator[None]:
    """Another client, which must not be affected."""
    waits: list[float] = []
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            began = time.monotonic()
            waits.append(float("inf"))
            assert server.send("GET", "/api/v1/namespaces/default")[0] == 200
            waits[-1] = time.monotonic() - began
            over.wait(0.02)

    thread = threading.Thread(target=poll)
    thread.start()
    yield
    over.set()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert max(waits) < SECONDS
    assert server.megabytes() < MEGABYTES


def laughs() -> bytes:
    lines = ['a0: &a0 ["lol","lol","lol","lol","lol","lol","lol","lol","lol"]']
    lines += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
    return "\n".join(lines).encode()


def operations(*given: dict[str, Any]) -> bytes:
    return json.dumps(given).encode()


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


COPIES = operations(
    {"op": "add", "path": "/metadata/annotations", "value": {"a": "y" * 1000}},
    *(
        {"op": "copy", "from": "/metadata/annotations", "path": f"/metadata/annotations/b{number}"}
        for number in range(40)
    ),
)
LARGE = json.dumps({"metadata": {"name": "b"}, "data": {"a": "x" * 2_900_000}}).encode()
LABELS = json.dumps(
    {"metadata": {"name": "l", "labels": {f"k{number}": "!" * 80 for number in range(20_000)}}}
).encode()
PROMISE = b"k8s\x00" + b"\x0a\xff\xff\xff\xff\x0f" * 100
NUMBER = b'{"metadata":{"name":"r"},"spec":{"replicas":' + b"9" * 100_000 + b"}}"
TESTS = operations(*[{"op": "test", "path": "/kind"}] * 10_001)
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
SELECTOR = "%2C".join(f"key{number}%20in%20(a,b,c)" for number in range(2000))


@cases(
    "method, path, body, kind",
    {
        "truncated JSON": ("POST", MAPS, b'{"a":', JSON),
        "zeros": ("POST", MAPS, b"\0\0\0", JSON),
        "a name that is no text": ("POST", MAPS, b'{"metadata":{"name":"\xff\xfe"}}', JSON),
        "brackets": ("POST", MAPS, b'{"data":' + b"[" * 100_000, JSON),
        "deep JSON": ("POST", MAPS, nested(20_000), JSON),
        "brackets in YAML": ("POST", MAPS, b"a: " + b"[" * 100_000, YAML),
        "a billion laughs": ("POST", MAPS, laughs(), YAML),
        "4 MB": ("POST", MAPS, b'{"data":{"a":"' + b"x" * 4_000_000 + b'"}}', JSON),
        "a value of 3 MB": ("POST", MAPS, LARGE, JSON),
        "20,000 invalid labels": ("POST", MAPS, LABELS, JSON),
        "invalid protobuf": ("POST", MAPS, b"k8s\x00" + bytes(range(256)) * 20, PROTOBUF),
        "protobuf with a promise": ("POST", MAPS, PROMISE, PROTOBUF),
        "plain text": ("POST", MAPS, b"{}", "text/plain"),
        "a long number": ("POST", "/apis/apps/v1/namespaces/default/replicasets", NUMBER, JSON),
        "10,001 operations": ("PATCH", ONE, TESTS, JSON_PATCH),
        "copies of copies": ("PATCH", ONE, COPIES, JSON_PATCH),
        "a deep strategic patch": ("PATCH", ONE, nested(9000), STRATEGIC),
        "a deep merge patch": ("PATCH", ONE, nested(9000), "application/merge-patch+json"),
        "a deep apply": ("PATCH", f"{ONE}?fieldManager=m", nested(9000), APPLY),
        "an apply that laughs": ("PATCH", f"{ONE}?fieldManager=m", laughs(), APPLY),
        "invalid label selector": ("GET", f"{MAPS}?labelSelector=%28%28%28a", None, JSON),
        "invalid continue token": ("GET", f"{MAPS}?limit=1&continue=%ff%00garbage", None, JSON),
        "a version below zero": ("GET", f"{MAPS}?resourceVersion=-5", None, JSON),
        "invalid timeout": ("GET", f"{MAPS}?timeout=abc", None, JSON),
        "a long name": ("GET", f"{MAPS}/{'a' * 60_000}", None, JSON),
        "invalid escapes in the path": ("GET", "/api/v1/%2e%2e/%00/%ff%fe?x=%zz", None, JSON),
        "a path upwards": ("GET", "/api/v1/namespaces/../../../etc/passwd", None, JSON),
    },
)
def test_invalid_requests_are_rejected(server: Target, method: str, path: str, body: bytes | None, kind: str) -> None:
    began = time.monotonic()
    code, answer = server.send(method, path, body, kind)
    assert 400 <= code < 500, answer[:300]
    assert time.monotonic() - began < SECONDS


def test_large_valid_requests_are_accepted(server: Target) -> None:
    assert server.send("GET", f"{MAPS}?labelSelector={SELECTOR}")[0] == 200
    assert server.send("GET", f"{MAPS}?fieldSelector={'metadata.name%3D%3Done%2C' * 2000}")[0] == 200
    many = {"metadata": {"name": "many"}, "data": {f"k{number}": "v" for number in range(50_000)}}
    assert server.send("POST", MAPS, json.dumps(many).encode())[0] == 201
    assert server.send("DELETE", f"{MAPS}/many")[0] == 200


def test_expensive_cel_rule_does_not_block_the_server(server: Target) -> None:
    pattern = {"type": "string", "pattern": "^(a+)+$"}
    words = definition("Word", version(schema={"type": "object", "properties": {"text": pattern}}))
    assert server.send("POST", DEFINITIONS, json.dumps(words).encode())[0] == 201
    word = {"apiVersion": "example.com/v1", "kind": "Word", "metadata": {"name": "w"}, "text": "a" * 100_000 + "!"}
    deadline = time.monotonic() + SECONDS
    while (
        code := server.send("POST", "/apis/example.com/v1/namespaces/default/words", json.dumps(word).encode())[0]
    ) == 404:
        assert time.monotonic() < deadline
    assert code == 422


def test_slow_clients_do_not_affect_others(server: Target) -> None:
    """A hundred clients that send an incomplete head or body, and stay connected."""
    head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n".encode()
    with ExitStack() as stack:
        for number in range(100):
            client = stack.enter_context(server.raw())
            client.sendall(head if number % 2 else head + b"Content-Length: 1000\r\n\r\n{")
        for _ in range(20):
            assert server.send("GET", ONE)[0] == 200


def test_non_http_input_is_rejected(server: Target) -> None:
    for junk in (b"\x16\x03\x01\x00", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000 + b"\r\n\r\n", b"\r\n" * 1000):
        with server.raw() as client:
            client.sendall(junk)
            client.settimeout(0.5)
            try:
                answer = client.recv(100)
            except (TimeoutError, ConnectionError):
                continue
            assert not answer or answer.startswith(b"HTTP/1.1 4")


def test_thousand_watchers_receive_events(server: Target, soak: bool) -> None:
    count = 3000 if soak else 300
    request = f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            # A connection that has sent nothing for a second may be closed in favor of others.
            clients.append(stack.enter_context(server.raw()))
            clients[-1].sendall(request)
        for client in clients:
            _read_until(client, b'"name":"one"')
        assert server.send("POST", MAPS, b'{"metadata":{"name":"news"}}')[0] == 201
        for client in clients:
            _read_until(client, b'"name":"news"')
    assert server.send("DELETE", f"{MAPS}/news")[0] == 200


def _read_until(client: ssl.SSLSocket, wanted: bytes) -> None:
    read = b""
    while wanted not in read:
        part = client.recv(65536)
        assert part, "the watch ended"
        read = read[-1000:] + part
