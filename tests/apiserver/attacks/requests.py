"""Attacks through connections, request heads, authentication and authorization."""

import base64
import contextlib
import datetime
import http.client
import itertools
import json
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from tests.apiserver.attacks.attacked_plane import RBAC, USER, USER_TOKEN, Attack, AttackedPlane
from tests.connections import insecure_context

RBAC_API = "/apis/rbac.authorization.k8s.io/v1"
_numbers = itertools.count(1)


def grant(plane: AttackedPlane, *rules: dict[str, Any]) -> None:
    """Grant the user additional permissions, in all namespaces."""
    name = f"more-{next(_numbers)}"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    }
    objects = {"clusterroles": {"metadata": {"name": name}, "rules": list(rules)}, "clusterrolebindings": binding}
    for resource, body in objects.items():
        assert plane.as_admin("POST", f"{RBAC_API}/{resource}", body).status == 201


def _secrets(plane: AttackedPlane, names: Iterable[str]) -> str:
    """Secrets in a separate namespace, and their path."""
    namespace = f"secrets-{next(_numbers)}"
    assert plane.as_admin("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).status == 201
    for name in names:
        secret = {"metadata": {"name": name}, "stringData": {"key": f"value-of-{name}"}}
        assert plane.as_admin("POST", f"/api/v1/namespaces/{namespace}/secrets", secret).status == 201
    return namespace


def _strangers_see_nothing(plane: AttackedPlane) -> None:
    for path in ("/api/v1/secrets", "/api", "/apis", "/metrics", "/openapi/v2", "/nothing"):
        assert plane.request("GET", path).status in (401, 403), path


def _strangers_are_nobody_else(plane: AttackedPlane) -> None:
    for user in ("x", "system:admin", "system:anonymous", "system:serviceaccount:kube-system:default"):
        for more in ({}, {"Impersonate-Group": "system:masters"}, {"Impersonate-Uid": "1"}):
            answer = plane.request("GET", "/api/v1/secrets", headers={"Impersonate-User": user, **more})
            assert answer.status in (401, 403), (user, more)


def _one_secret_is_not_all(plane: AttackedPlane) -> None:
    namespace = _secrets(plane, ("allowed", "other"))
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["allowed"]}
    grant(plane, {**rule, "verbs": ["get", "list", "watch", "deletecollection"]})
    watched = f"/api/v1/watch/namespaces/{namespace}/secrets/allowed?timeoutSeconds=1"
    listed = f"/api/v1/namespaces/{namespace}/secrets?"
    for target in (
        rf"{watched}&fieldSelector=type%21%3Dx",
        rf"{watched}&fieldSelector=metadata.name%21%3Dallowed",
        rf"{watched}&fieldSelector=metadata.name%3Dother",
        rf"{listed}fieldSelector=type%21%3Dx\,metadata.name%3Dallowed",
        rf"{listed}watch=1&timeoutSeconds=1&fieldSelector=type%21%3Dx\,metadata.name%3Dallowed",
        rf"{listed}fieldSelector=metadata.name%3Dallowed%2F..%2Fother",
    ):
        answer = plane.as_user("GET", target)
        assert answer.status in (400, 403), target
        assert b"other" not in answer.body.replace(b"metadata.name=other", b""), target
    assert plane.as_user("DELETE", f"{listed}fieldSelector=metadata.name%3Dallowed").status == 403
    assert len(plane.as_admin("GET", listed).json["items"]) == 2


_LONG = 60_000
"""The maximum number of characters in a head."""


def _many_resources(plane: AttackedPlane) -> None:
    long = "x" * (_LONG // 4)
    paths = [f"/apis/g{number}{long}/v1{long}/r{number}{long}/n/s{long}" for number in range(1000)]
    pending_requests = plane.send_requests([("GET", path, {}) for path in [*paths, '/apis/evil"}/v1/pods/x', "/odd"]])
    assert {answer.status for answer in pending_requests} <= {401, 403}
    exposition = plane.as_admin("GET", "/metrics").body.decode()
    assert "evil" not in exposition
    assert "x" * 100 not in exposition


def _many_paths_of_a_user(plane: AttackedPlane) -> None:
    paths = [f"/{number}/{'x' * _LONG}" for number in range(1200)]
    pending_requests = plane.send_requests([("GET", path, {}) for path in paths], token=USER_TOKEN)
    assert {answer.status for answer in pending_requests} == {403}


def _many_accept_headers(plane: AttackedPlane) -> None:
    headers = [{"Accept": f"a/{number}" + ",a" * (_LONG // 2)} for number in range(300)]
    pending_requests = plane.send_requests([("GET", "/api/v1/secrets", header) for header in headers])
    assert {answer.status for answer in pending_requests} <= {401, 403}


def _heads_that_take_long_to_read(plane: AttackedPlane) -> None:
    heads: list[tuple[str, dict[str, str]]] = [
        ("/api/v1/pods?" + "a&" * (_LONG // 2), {}),
        ("/api/v1/pods?fieldSelector=" + "metadata.name=b," * (_LONG // 16), {}),
        ("/api/v1/pods?fieldSelector=a=" + "\\," * (_LONG // 2), {}),
        ("/api/v1/pods" + "/%41" * (_LONG // 4), {}),
        ("/api/v1/pods" + "/" * _LONG, {}),
        ("/api/v1/pods", {f"Impersonate-Extra-{number}": "x" for number in range(_LONG // 30)}),
    ]
    for path, headers in heads:
        pending_requests = plane.send_requests([("GET", path, headers)] * 10)
        assert {answer.status for answer in pending_requests} <= {400, 401, 403, 431}


@contextlib.contextmanager
def _connections(plane: AttackedPlane, count: int, first: bytes = b"") -> Iterator[list[ssl.SSLSocket]]:
    """Open connections, each of which has sent as much of the first bytes as the server accepts."""
    with contextlib.ExitStack() as stack:
        result = []
        for _ in range(count):
            connection = stack.enter_context(plane.connect())
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):
                connection.sendall(first)
            result.append(connection)
        yield result


def _unfinished(method: str, path: str, sent: int, token: str = "") -> bytes:
    """A request with an incomplete body of 3 MB."""
    login = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{login}Content-Type: application/json\r\n"
    return f"{head}Content-Length: 3000000\r\n\r\n".encode() + b" " * sent


_HOLD_SECONDS = 0.7
"""How long unauthenticated connections are held before their cost is measured."""


def _silence(plane: AttackedPlane) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1500):
            stack.enter_context(socket.create_connection(("127.0.0.1", plane.port)))
        time.sleep(_HOLD_SECONDS)


def _half_a_hello(plane: AttackedPlane) -> None:
    hello = bytes.fromhex("160301020001 0001fc0303") + bytes(100)
    with contextlib.ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(socket.create_connection(("127.0.0.1", plane.port))).sendall(hello)
        time.sleep(_HOLD_SECONDS)


def _open(first: bytes, count: int) -> Callable[[AttackedPlane], None]:
    def attack(plane: AttackedPlane) -> None:
        with _connections(plane, count, first):
            time.sleep(_HOLD_SECONDS)

    return attack


def _unfinished_bodies_of_a_user(plane: AttackedPlane) -> None:
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    with _connections(plane, 40, _unfinished("POST", reviews, 2_900_000, USER_TOKEN)):
        time.sleep(_HOLD_SECONDS)


def _with_large_objects(plane: AttackedPlane) -> str:
    """A namespace with 7 MB of objects, and the path of their list."""
    namespace = f"large-{next(_numbers)}"
    assert plane.as_admin("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).status == 201
    for name in "abcdefg":
        body = {"metadata": {"name": name}, "data": {"key": name * 1_000_000}}
        assert plane.as_admin("POST", f"/api/v1/namespaces/{namespace}/configmaps", body).status == 201
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _unread(query: str) -> Callable[[AttackedPlane], None]:
    def attack(plane: AttackedPlane) -> None:
        target = _with_large_objects(plane)
        head = f"GET {target}?{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {USER_TOKEN}\r\n\r\n"
        with _connections(plane, 30, head.encode()) as readers:
            for reader in readers:
                assert reader.recv(12) == b"HTTP/1.1 200"
            time.sleep(_HOLD_SECONDS)
        assert plane.as_admin("DELETE", f"/api/v1/namespaces/{target.split('/')[4]}").status == 200

    return attack


def _hosts(plane: AttackedPlane) -> None:
    login = f"Authorization: Bearer {USER_TOKEN}\r\n"
    for hosts in ("", "Host: a\r\nHost: b\r\n", "Host: a/b\r\n", "Host: a b\r\n"):
        with plane.connect() as connection:
            connection.sendall(f"GET /api/v1/secrets HTTP/1.1\r\n{hosts}{login}\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 400", hosts


def _tokens(plane: AttackedPlane) -> None:
    """Tokens with malformed parts; other headers are in ``tests/apiserver/authentication/test_authenticator.py``."""
    for head in (b'{"alg":"ES256","kid":["a"]}', b'{"alg":"ES256","kid":{}}', b'{"x":' + b"[" * 20_000):
        token = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (head, b"{}", b"x" * 64))
        assert plane.request("GET", "/api/v1/secrets", token=token).status == 401


_MANY = 1000


def _long_selectors(plane: AttackedPlane) -> None:
    target = _with_many_objects(plane)
    for query in (
        "labelSelector=" + ",".join(f"a{number}!=b" for number in range(7000)),
        "labelSelector=" + ",".join(f"even!=b{number}" for number in range(5000)),
        "fieldSelector=" + ",".join(f"metadata.name!=b{number}" for number in range(2500)),
    ):
        assert len(plane.as_user("GET", f"{target}?{query}").json["items"]) >= _MANY


def _with_many_objects(plane: AttackedPlane) -> str:
    """Many ConfigMaps, and the path of their list."""
    namespace = f"many-{next(_numbers)}"
    assert plane.as_admin("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).status == 201
    target = f"/api/v1/namespaces/{namespace}/configmaps"
    headers = {"Authorization": f"Bearer {plane.admin_token}", "Content-Type": "application/json"}
    connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=insecure_context())
    with contextlib.closing(connection):
        for number in range(_MANY):
            body = {"metadata": {"name": f"c{number}", "labels": {"even": str(number % 2)}}}
            connection.request("POST", target, json.dumps(body), headers)
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            answer.read()
    return target


def _lists_in_other_forms(plane: AttackedPlane) -> None:
    namespace = f"forms-{next(_numbers)}"
    assert plane.as_admin("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).status == 201
    target = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in "ab":
        body = {"metadata": {"name": name}, "data": {f"key{number}": "value" for number in range(10_000)}}
        assert plane.as_admin("POST", target, body).status == 201
    forms = ["application/yaml"] * 3 + ["application/vnd.kubernetes.protobuf"] * 3
    forms += ["application/yaml;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1;g=meta.k8s.io"]
    with ThreadPoolExecutor(len(forms)) as pool:

        def listed(accept: str) -> int:
            return plane.request("GET", target, token=USER_TOKEN, headers={"Accept": accept}).status

        assert set(pool.map(listed, forms)) <= {200, 429}


def _costly_certificates(plane: AttackedPlane) -> None:
    """Nine certificates, each a possible issuer of each other, with RSA exponents as long as their moduli."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "same")])
    now = datetime.datetime.now(datetime.UTC)
    signer = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    modulus = signer.public_key().public_numbers().n

    def issued(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
        builder = x509.CertificateBuilder(
            subject_name=name,
            issuer_name=name,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - datetime.timedelta(days=1),
            not_valid_after=now + datetime.timedelta(days=1),
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    own = ec.generate_private_key(ec.SECP256R1())
    others = [rsa.RSAPublicNumbers((1 << 2046) + 1 + 2 * number, modulus).public_key() for number in range(8)]
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    with tempfile.TemporaryDirectory() as directory:
        chain, private = Path(directory) / "chain.pem", Path(directory) / "key.pem"
        chain.write_bytes(b"".join([issued(own.public_key()), *[issued(key) for key in others]]))
        private.write_bytes(own.private_bytes(*pem))
        context = insecure_context()
        context.load_cert_chain(chain, private)
    for _ in range(30):
        with plane.connect(context) as connection:
            connection.sendall(b"GET /api/v1/secrets HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 401"


ATTACKS = [
    Attack("strangers see nothing", _strangers_see_nothing),
    Attack("strangers see nothing with RBAC", _strangers_see_nothing, RBAC),
    Attack("strangers act for nobody else", _strangers_are_nobody_else),
    Attack("strangers act for nobody else with RBAC", _strangers_are_nobody_else, RBAC),
    Attack("a right to one Secret reads one", _one_secret_is_not_all, RBAC),
    Attack("requests for thousands of resources", _many_resources),
    Attack("requests for thousands of resources with RBAC", _many_resources, RBAC),
    Attack("requests for thousands of paths", _many_paths_of_a_user, RBAC),
    Attack("Accept headers of thousands of media types", _many_accept_headers),
    Attack("heads that take long to read", _heads_that_take_long_to_read),
    Attack("heads that take long to read with RBAC", _heads_that_take_long_to_read, RBAC),
    Attack("connections that say nothing", _silence),
    Attack("connections with half a handshake", _half_a_hello),
    Attack("connections without requests", _open(b"", 200)),
    Attack("connections with half a head", _open(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * _LONG, 250)),
    Attack(
        "connections with requests whose answers are not read",
        _open(b"GET / HTTP/1.1\r\nHost:\r\n\r\n" * 2300, 60),
    ),
    Attack("connections with half a body", _open(_unfinished("POST", "/api/v1/pods", 1_000_000), 150)),
    Attack(
        "connections with half a body with RBAC",
        _open(_unfinished("POST", "/api/v1/pods", 1_000_000), 150),
        RBAC,
    ),
    Attack("half bodies of a user", _unfinished_bodies_of_a_user, RBAC),
    Attack("lists that are not read", _unread("")),
    Attack("watches that are not read", _unread("watch=1")),
    Attack("selectors of thousands of requirements", _long_selectors),
    Attack("lists in forms that take long", _lists_in_other_forms),
    Attack("client certificates that take long to verify", _costly_certificates),
    Attack("no host, and several", _hosts),
    Attack("tokens of other types", _tokens),
]
