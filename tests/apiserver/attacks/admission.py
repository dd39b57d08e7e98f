"""Attacks through admission: hostile webhooks, and excessive limits."""

import base64
import contextlib
import datetime
import itertools
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.apiserver.attacks.attacked_plane import Attack, AttackedPlane

from pilothouse.serving.certificates import create_authority, issue_server

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_NAMESPACES = "/api/v1/namespaces"
_numbers = itertools.count(1)

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


@contextlib.contextmanager
def _webhook(
    plane: AttackedPlane, answer: Answer, *, ca_bundle: str = "", url: str = "", seconds: int = 1
) -> Iterator[str]:
    """A webhook for the ConfigMaps of one namespace, and their path."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            with contextlib.suppress(OSError):
                answer(self, json.loads(self.rfile.read(length)))

        def log_message(self, *_arguments: object) -> None:
            """Nothing is logged."""

    authority = create_authority("webhooks", datetime.datetime.now(datetime.UTC))
    pair = issue_server(authority, ["localhost"], datetime.datetime.now(datetime.UTC))
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
        pair.save(certificate, key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
    namespace = f"asked-{next(_numbers)}"
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        bundle = ca_bundle or base64.b64encode(authority.certificate).decode()
        webhook_spec = {
            "name": "a.example.com",
            "clientConfig": {"url": url or f"https://localhost:{server.server_port}/", "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": seconds,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        }
        assert plane.as_admin("POST", _NAMESPACES, {"metadata": {"name": namespace}}).status == 201
        created = plane.as_admin("POST", CONFIGURATIONS, {"metadata": {"name": namespace}, "webhooks": [webhook_spec]})
        assert created.status == 201, created.body
        try:
            yield f"{_NAMESPACES}/{namespace}/configmaps"
        finally:
            assert plane.as_admin("DELETE", f"{CONFIGURATIONS}/{namespace}").status == 200
            server.shutdown()
            thread.join()


def _create(plane: AttackedPlane, target: str) -> tuple[int, str]:
    answer = plane.as_user("POST", target, {"metadata": {"generateName": "c-"}, "data": {"a": "b"}})
    return answer.status, answer.json.get("message", "")


def _silent(handler: BaseHTTPRequestHandler, _review: dict[str, Any]) -> None:
    time.sleep(1.5)
    handler.close_connection = True


def _dripping(handler: BaseHTTPRequestHandler, _review: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(15):
        handler.wfile.write(b"X-More: 1\r\n")
        time.sleep(0.1)


def _endless(handler: BaseHTTPRequestHandler, _review: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(2000):
        handler.wfile.write(b"10000\r\n" + b"[" * 65536 + b"\r\n")


def _endless_head(handler: BaseHTTPRequestHandler, _review: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(2000):
        handler.wfile.write(b"X-More: " + b"x" * 65536 + b"\r\n")


def _moved(handler: BaseHTTPRequestHandler, _review: dict[str, Any]) -> None:
    handler.wfile.write(b"HTTP/1.1 307 T\r\nContent-Length: 0\r\nLocation: /again\r\n\r\n")


def _answering(make: Callable[[dict[str, Any]], bytes]) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, review: dict[str, Any]) -> None:
        body = make(review)
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    return answer


def _response(review: dict[str, Any], **more: Any) -> bytes:
    response = {"uid": review["request"]["uid"], "allowed": True, **more}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()


def _patching(operations: list[dict[str, Any]]) -> Answer:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return _answering(lambda review: _response(review, patchType="JSONPatch", patch=patch))


def _elsewhere(location: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, _review: dict[str, Any]) -> None:
        handler.wfile.write(f"HTTP/1.1 307 T\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n".encode("latin-1"))

    return answer


def _raw(members: bytes) -> Answer:
    return _answering(lambda review: _response(review)[:-2] + b"," + members + b"}}")


_HOSTILE: dict[str, Answer] = {
    "an address without its end": _elsewhere("https://[::1"),
    "a port of six digits": _elsewhere("https://localhost:100000/"),
    "a name that DNS does not have": _elsewhere("https://a..b/"),
    "a name that TLS does not have": _elsewhere("https://.localhost/"),
    "half a character": _raw(b'"warnings":["\\ud800"]'),
    "a number of any size": _raw(b'"x":1e999,"y":1' + b"0" * 5000),
    "what is not JSON, after millions of values": _raw(b'"x":[' + b"0," * 3_000_000 + b"}"),
    "half a million annotations": _raw(
        b'"auditAnnotations":{' + b",".join(b'"%d":""' % number for number in range(500_000)) + b"}"
    ),
    "insertions into a long list": _patching(
        [{"op": "add", "path": "/x", "value": [0] * 300_000}] + [{"op": "add", "path": "/x/0", "value": 0}] * 9_999
    ),
    "nothing": _silent,
    "a head without end, slowly": _dripping,
    "a head without end": _endless_head,
    "a body without end": _endless,
    "another place, and again": _moved,
    "lists in each other": _answering(lambda _review: b"[" * 2_000_000),
    "millions of values": _answering(lambda _review: b"[" + b"{}," * 4_000_000 + b"{}]"),
    "a large answer": _answering(lambda review: _response(review, auditAnnotations={"a": "x" * 12_000_000})),
    "warnings": _answering(lambda review: _response(review, warnings=["w" * 100 + str(n) for n in range(50_000)])),
    "a deep patch": _patching(
        [{"op": "add", "path": "/x", "value": {"a": {}}}]
        + [{"op": "copy", "from": "/x", "path": "/x" + "/a" * 2**power} for power in range(14)]
    ),
    "copies of copies": _patching(
        [{"op": "add", "path": "/data/a", "value": "x" * 100_000}]
        + [{"op": "copy", "from": "/data", "path": f"/data/c{number}"} for number in range(30)]
    ),
    "a hundred thousand operations": _patching(
        [{"op": "add", "path": f"/data/k{number}", "value": ""} for number in range(100_000)]
    ),
}


def _hostile(answer: Answer) -> Callable[[AttackedPlane], None]:
    def attack(plane: AttackedPlane) -> None:
        with _webhook(plane, answer) as target, ThreadPoolExecutor(4) as senders:
            pending_requests = [senders.submit(_create, plane, target) for _ in range(4)]
        answers = [item.result() for item in pending_requests]
        assert {status for status, _message in answers} <= {201, 400, 413, 422, 429, 500}, answers
        assert all(message.startswith("Internal error occurred: ") for status, message in answers if status == 500), (
            answers
        )

    return attack


def _denied_with_headers(plane: AttackedPlane) -> None:
    """The Status of a denial adds no headers to the response, and its code is one of HTTP."""
    statuses: dict[str, tuple[Any, int]] = {
        "a header": ({"code": 429, "details": {"retryAfterSeconds": "1\r\nSet-Cookie: a=b"}}, 500),
        "an object": ({"code": 429, "details": {"retryAfterSeconds": {"a": "b"}}}, 500),
        "a code of four digits": ({"code": 1000}, 500),
        "the last code": ({"code": 999}, 999),
        "a code without a body": ({"code": 204}, 400),
    }

    def deny(review: dict[str, Any]) -> bytes:
        return _response(review, allowed=False, status=statuses[review["request"]["object"]["data"]["case"]][0])

    with _webhook(plane, _answering(deny)) as target:
        for case, (_status, code) in statuses.items():
            created = plane.as_user("POST", target, {"metadata": {"generateName": "c-"}, "data": {"case": case}})
            assert created.status == code, (case, created.body)


def _own_address(plane: AttackedPlane) -> None:
    """A webhook that points to the API server is called without credentials and gains nothing."""
    with plane.connect() as connection:
        peer = connection.getpeercert(binary_form=True)
    assert peer is not None
    bundle = base64.b64encode(ssl.DER_cert_to_PEM_cert(peer).encode()).decode()
    for path in ("livez", "api/v1/secrets", "api/v1/namespaces/default/configmaps"):
        url = f"https://127.0.0.1:{plane.port}/{path}"
        with _webhook(plane, _silent, ca_bundle=bundle, url=url) as target:
            status, message = _create(plane, target)
            assert status == 500, message
            assert "failed calling webhook" in message


def _many_authorities(plane: AttackedPlane) -> None:
    authority = create_authority("webhooks", datetime.datetime.now(datetime.UTC)).certificate
    bundle = base64.b64encode(authority * 1500).decode()
    with _webhook(plane, _silent, ca_bundle=bundle, url="https://127.0.0.1:1/") as target:
        for _ in range(4):
            assert _create(plane, target)[0] == 500


def _many_limits(plane: AttackedPlane) -> None:
    namespace = f"limited-{next(_numbers)}"
    target = f"{_NAMESPACES}/{namespace}"
    assert plane.as_admin("POST", _NAMESPACES, {"metadata": {"name": namespace}}).status == 201
    amounts = {f"example.com/r{number}": "1" for number in range(2_000)}
    item = {"type": "Container", "max": amounts, "default": amounts, "defaultRequest": amounts}
    for number in range(5):
        limits = {"metadata": {"name": f"l{number}"}, "spec": {"limits": [item]}}
        assert plane.as_user("POST", f"{target}/limitranges", limits).status == 201
    containers = [{"name": f"c{number}", "image": "i"} for number in range(200)]
    created = plane.as_user("POST", f"{target}/pods", {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    assert created.status == 403, created.body[:500]
    assert "comparisons of quantities" in created.json["message"]
    assert plane.as_admin("DELETE", target).status == 200


ATTACKS = [
    *(Attack(f"a webhook that answers {name}", _hostile(answer)) for name, answer in _HOSTILE.items()),
    Attack("a webhook that denies with a Status of its own", _denied_with_headers),
    Attack("a webhook that is this server", _own_address),
    Attack("a webhook with 1,500 authorities", _many_authorities),
    Attack("limits of 2,000 resources for 200 containers", _many_limits),
]
