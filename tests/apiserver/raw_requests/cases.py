"""A case by its number: a few related requests, of which one is mutated."""

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml
from tests.apiserver.attacks.attacked_plane import USER_TOKEN
from tests.apiserver.raw_requests.mutations import change_bytes, change_text, change_value, dump, odd_text, odd_value
from tests.apiserver.raw_requests.seeds import NAMESPACE, Seed, load

from pilothouse.apiserver.serializers.protobuf import encode_object, has_protobuf

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CBOR = "application/cbor"
PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_TRIED_ONLY = {
    *("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService", "CustomResourceDefinition"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityLevelConfiguration", "FlowSchema"),
    *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "LimitRange", "ResourceQuota", "Namespace"),
    *("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"),
    *("HorizontalPodAutoscaler", "ServiceCIDR", "PersistentVolumeClaim"),
}
"""Kinds that affect other requests, or for which controllers create many objects: sent with ``dryRun=All``."""


class Sent(NamedTuple):
    """One request."""

    data: bytes
    whole: bool = True
    """Whether it is a valid HTTP request, which requires a response."""
    expected: int = 0
    """The only acceptable status; 0 for any status below 500."""


def head(method: str, target: str, *headers: str, length: int | None = None, token: str = USER_TOKEN) -> bytes:
    """The bytes before a body."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def request(
    method: str, target: str, body: bytes = b"", content_type: str = JSON, *headers: str, expected: int = 0
) -> Sent:
    """One complete request."""
    if not body:
        return Sent(
            head(method, target, *headers, length=0 if method in ("POST", "PUT", "PATCH") else None), True, expected
        )
    return Sent(
        head(method, target, f"Content-Type: {content_type}", *headers, length=len(body)) + body, True, expected
    )


def make(number: int) -> tuple[Sent, ...]:
    """The requests of one case, in order."""
    # Numbers beside each other would begin alike.
    random = Random(number * 2654435761)
    return random.choices(tuple(_WEIGHTS), tuple(_WEIGHTS.values()))[0](random, number)


def _with(target: str, parameter: str) -> str:
    return f"{target}{'&' if '?' in target else '?'}{parameter}"


def _encoded(random: Random, value: Any) -> tuple[bytes, str]:
    """A value encoded in one of the media types."""
    form = random.randrange(10)
    if form < 5 or form == 9:
        return dump(value), JSON if form < 5 else YAML
    if form < 7:
        try:
            return yaml.dump(value, Dumper=yaml.CSafeDumper, default_flow_style=random.random() < 0.3).encode(), YAML
        except (RecursionError, UnicodeEncodeError, yaml.YAMLError):
            return dump(value), YAML
    if isinstance(value, dict) and form < 9:
        version, kind = value.get("apiVersion"), value.get("kind")
        if isinstance(version, str) and isinstance(kind, str) and has_protobuf(version, kind):
            try:
                return encode_object(value), PROTOBUF
            except Exception:  # noqa: BLE001  # the encoder is for what has been validated
                return dump(value), PROTOBUF
    return dump(value), JSON


def _cbor(value: Any) -> bytes:
    """Text in a CBOR envelope, which is rejected without decoding."""
    text = dump(value)
    return b"\xd9\xd9\xf7\x7b" + len(text).to_bytes(8, "big") + text


def _picked(random: Random) -> Seed:
    # The first 150 are samples of every kind, the others recorded objects.
    objects = load().objects
    return random.choice(objects[:150] if random.random() < 0.5 else objects)


def _named(seed: Seed, name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(seed.body))
    kind = body.get("kind")
    if kind not in ("IPAddress", "APIService", "CustomResourceDefinition"):
        body["metadata"]["name"] = name
    body["metadata"].pop("generateName", None)
    body["metadata"].pop("finalizers", None)
    return body


def _parameters(random: Random, target: str, *, kind: str = "") -> str:
    """Some query parameters of writes, mostly valid."""
    for name, values in _OF_WRITES.items():
        if random.random() < 0.1:
            value = random.choice(values) if random.random() < 0.7 else change_text(random, random.choice(values))
            target = _with(target, f"{name}={value}")
    return _with(target, "dryRun=All") if kind in _TRIED_ONLY else target


_OF_WRITES = {
    "fieldManager": ("a", "kubectl", "x" * 129),
    "fieldValidation": ("Strict", "Warn", "Ignore"),
    "dryRun": ("All", "Some"),
    "force": ("true", "false", "maybe"),
    "pretty": ("true", "0"),
    "timeout": ("5s", "1ns", "-1s", "9999h"),
}
_ACCEPTS = (
    *(
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "*/*",
        "text/html",
        "application/cbor",
    ),
    *("application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml;as=Table;v=v1;g=meta.k8s.io"),
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;q=0.5, application/yaml;q=nan",
    "application/json;stream=watch",
)


def _accept(random: Random) -> str:
    # A request whose response format is not acceptable is rejected before its body is read.
    accept = random.choice(_ACCEPTS) if random.random() < 0.3 else random.choice(_ACCEPTS[:3])
    if random.random() < 0.15:
        accept = change_bytes(random, accept.encode()).decode("latin-1")
        accept = "".join(letter for letter in accept if letter >= " " and letter != "\x7f")
    return f"Accept: {accept}"


# Cases


def _create(random: Random, number: int) -> tuple[Sent, ...]:
    seed = _picked(random)
    name = f"raw-{number}"
    body, content_type = _encoded(random, change_value(random, _named(seed, name)))
    if random.random() < 0.25:
        body = change_bytes(random, body)
    target = _with(_parameters(random, seed.root), "dryRun=All")
    return (request("POST", target, body, content_type, _accept(random)),)


def _cbor_body(random: Random, number: int) -> tuple[Sent, ...]:
    seed = _picked(random)
    body = _cbor(_named(seed, f"raw-{number}"))
    if random.random() < 0.5:
        body = change_bytes(random, body) or b"\xf6"
    return (request("POST", f"{seed.root}?dryRun=All", body, CBOR, expected=415),)


def _created(random: Random, number: int) -> tuple[Seed, dict[str, Any], str, Sent, Sent]:
    """An object with the requests that create it and delete it."""
    seed = _picked(random)
    obj = _named(seed, f"raw-{number}")
    name = quote(str(obj["metadata"].get("name", f"raw-{number}")), safe="")
    one = f"{seed.root}/{name}"
    created = request("POST", seed.root, dump(obj))
    deleted = request("DELETE", f"{one}?gracePeriodSeconds=0&propagationPolicy=Background")
    return seed, obj, one, created, deleted


_SUBRESOURCES = ("status", "scale", "finalize", "approval", "ephemeralcontainers", "resize")


def _patch(random: Random, number: int) -> tuple[Sent, ...]:
    _seed, obj, one, created, deleted = _created(random, number)
    content_type = random.choice(PATCHES)
    patch: Any
    if random.random() < 0.3 and content_type in load().patches:
        patch = random.choice(load().patches[content_type])
    elif content_type == PATCHES[0]:
        patch = [_operation(random, obj) for _ in range(random.choice((1, 1, 2, 8)))]
    elif content_type == PATCHES[3]:
        patch = obj
    else:
        patch = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    if random.random() < 0.9:
        patch = change_value(random, patch)
    body = dump(patch)
    if random.random() < 0.2:
        body = change_bytes(random, body)
    target = one if random.random() < 0.8 else f"{one}/{random.choice(_SUBRESOURCES)}"
    if content_type == PATCHES[3]:
        target = _with(target, f"fieldManager=m{random.randrange(3)}" + random.choice(("", "&force=true")))
    target = _parameters(random, target, kind=str(obj.get("kind")))
    changed = request("PATCH", target, body, content_type, _accept(random))
    return created, changed, request("GET", one, b"", JSON, _accept(random)), deleted


def _operation(random: Random, obj: dict[str, Any]) -> Any:
    def pointer() -> str:
        node: Any = obj
        steps: list[str] = []
        while isinstance(node, dict | list) and node and random.random() < 0.8:
            if isinstance(node, dict):
                key = random.choice(sorted(node))
                steps.append(key.replace("~", "~0").replace("/", "~1"))
                node = node[key]
            else:
                index = random.randrange(len(node))
                steps.append(
                    random.choice((str(index), "-", "-1", f"0{index}", str(10**30)))
                    if random.random() < 0.3
                    else str(index)
                )
                node = node[index]
        if random.random() < 0.1:
            steps.append(odd_text(random))
        return "".join(f"/{step}" for step in steps)

    operation = {"op": random.choice(("add", "remove", "replace", "move", "copy", "test")), "path": pointer()}
    if operation["op"] in ("move", "copy"):
        operation["from"] = pointer()
    elif operation["op"] != "remove":
        operation["value"] = odd_value(random)
    return operation


def _update(random: Random, number: int) -> tuple[Sent, ...]:
    _seed, obj, one, created, deleted = _created(random, number)
    body, content_type = _encoded(random, change_value(random, obj))
    if random.random() < 0.15:
        body = change_bytes(random, body)
    target = one if random.random() < 0.7 else f"{one}/{random.choice(_SUBRESOURCES)}"
    target = _parameters(random, target, kind=str(obj.get("kind")))
    return created, request("PUT", target, body, content_type, _accept(random)), request("GET", one), deleted


def _delete(random: Random, number: int) -> tuple[Sent, ...]:
    seed, _obj, one, created, deleted = _created(random, number)
    options = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": random.choice((0, 1, 30, -1)),
        "preconditions": random.choice(({}, {"uid": "a"}, {"resourceVersion": "1"})),
        "propagationPolicy": random.choice(("Orphan", "Background", "Foreground")),
        "dryRun": random.choice(([], ["All"], ["a"])),
    }
    body, content_type = _encoded(random, change_value(random, options))
    if random.random() < 0.2:
        body = change_bytes(random, body)
    target = one
    if random.random() < 0.2:
        target = f"{seed.root}?dryRun=All&{_read_query(random)}"
    elif random.random() < 0.3:
        body = b""
        target = (
            f"{one}?gracePeriodSeconds={change_text(random, '10')}&propagationPolicy={change_text(random, 'Orphan')}"
        )
    return created, request("DELETE", target, body, content_type), deleted


def _token(random: Random) -> str:
    """A nearly valid ``continue`` token."""
    token: Any = {"v": "meta.k8s.io/v1", "rv": random.choice((1, 100, 0, -1, 2**70)), "start": "a\u0000"}
    if random.random() < 0.6:
        token = change_value(random, token)
    text = base64.urlsafe_b64encode(dump(token)).rstrip(b"=")
    if random.random() < 0.4:
        text = change_bytes(random, text)
    return quote(text)


_OF_READS: dict[str, tuple[str, ...]] = {
    "labelSelector": ("a=b", "a in (b,c)", "!a", "a!=b,c", "a notin (x)", "a>1", "a==", "a in ()", "a,b,c"),
    "fieldSelector": (
        "metadata.name=a",
        "metadata.namespace!=raw",
        "status.phase=Running",
        "spec.nodeName=",
        "a=b",
        "spec.text=x",
    ),
    "limit": ("1", "500", "-1", "0"),
    "resourceVersion": ("0", "1", "100", "-1"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "a"),
    "timeoutSeconds": ("1", "0", "-1"),
    "watch": ("true", "1", "false", "x"),
    "allowWatchBookmarks": ("true", "0"),
    "sendInitialEvents": ("true", "false"),
    "pretty": ("true", "0"),
    "includeObject": ("None", "Metadata", "Object", "a"),
    "shardSelector": ("shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",),
}


def _read_query(random: Random) -> str:
    if random.random() < 0.2:
        return change_text(random, random.choice(load().queries))
    parts = []
    for name in random.sample(sorted(_OF_READS), random.choice((1, 1, 2, 4))):
        value = quote(random.choice(_OF_READS[name]), safe="=,!()")
        parts.append(f"{name}={change_text(random, value) if random.random() < 0.5 else value}")
    if random.random() < 0.2:
        parts.append(f"continue={_token(random)}")
    return "&".join(parts)


def _read(random: Random, _number: int) -> tuple[Sent, ...]:
    root = _picked(random).root
    if random.random() < 0.2:
        root = root.replace(f"/namespaces/{NAMESPACE}", "")
    if random.random() < 0.1:
        root += "/a"
    return (request("GET", f"{root}?{_read_query(random)}", b"", JSON, _accept(random)),)


_OTHER_PATHS = (
    *(
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
    ),
    *(
        "/version",
        "/healthz",
        "/livez/ping",
        "/readyz?verbose",
        "/metrics",
        "/.well-known/openid-configuration",
        "/logs/a",
    ),
    *(
        "/openid/v1/jwks",
        "/api/v1/namespaces/raw/pods/a/exec?command=a",
        "/api/v1/namespaces/raw/pods/a/log?tailLines=1",
    ),
    *(
        "/api/v1/namespaces/raw/pods/a/portforward",
        "/api/v1/namespaces/raw/services/a:b/proxy/c",
        "/api/v1/nodes/node-0/proxy/x",
    ),
    *(
        "/api/v1/watch/namespaces/raw/configmaps?timeoutSeconds=1",
        "/api/v1/namespaces/raw/pods/a/eviction",
        "/apis/raw.example.com/v1",
    ),
    *(
        "/apis/metrics.k8s.io/v1beta1/nodes",
        "/api/v1/namespaces/raw/serviceaccounts/a/token",
        "/apis/raw.example.com/v1/widgets",
    ),
)


def _path(random: Random, _number: int) -> tuple[Sent, ...]:
    path = random.choice(_OTHER_PATHS) if random.random() < 0.6 else _picked(random).root
    path = change_text(random, path)
    if not path.startswith("/"):
        path = f"/{path}"
    method = random.choice(("GET", "GET", "GET", "HEAD", "OPTIONS", "TRACE", "PURGE", "POST", "PUT"))
    return (request(method, path.replace(" ", "%20"), b"", JSON, _accept(random)),)


def _head(random: Random, number: int) -> tuple[Sent, ...]:
    """Bytes that may not be HTTP. They contain no writes."""
    body = dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"raw-{number}"}})
    root = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    lines = [f"Content-Type: {JSON}", _accept(random)]
    lines += random.sample(_MORE_LINES, random.choice((0, 1, 2)))
    random.shuffle(lines)
    if random.random() < 0.5:
        data = head("GET", f"{root}?{_read_query(random)}", *lines)
    elif random.random() < 0.5:
        data = head("POST", f"{root}?dryRun=All", *lines, length=len(body)) + body
    else:
        pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
        chunked = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])
        data = head("POST", f"{root}?dryRun=All", *lines, "Transfer-Encoding: chunked") + chunked
    return (Sent(change_bytes(random, data) + b"\r\n\r\n", whole=False),)


_MORE_LINES = [
    "Content-Length: 3",
    "Content-Length: 0",
    "Content-Length: -1",
    "Content-Length: " + "9" * 60,
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Host: other",
    "Host: a b",
    "Connection: close",
    "Connection: upgrade",
    "Upgrade: websocket",
    "Upgrade: SPDY/3.1",
    "Upgrade: h2c",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Protocol: v4.channel.k8s.io",
    "Expect: 100-continue",
    "Expect: 200-maybe",
    "Accept-Encoding: gzip",
    "Content-Encoding: gzip",
    "Impersonate-User: a",
    "Impersonate-Group: b",
    "Impersonate-Extra-%41: c",
    "Impersonate-Uid: 1",
    "X-Remote-User: admin",
    "Cookie: a=b",
    "Audit-ID: " + "x" * 2000,
    "Audit-ID: a\tb",
    "Origin: https://a.example",
    "Range: bytes=0-1",
    "If-None-Match: *",
    "Te: trailers",
    " folded: line",
    "X-Empty:",
    "X-\x7f: y",
    ": nothing",
    "no colon",
    "X: " + "y" * 20_000,
    "Authorization: Basic YTpi",
    "Trailer: Host",
]


def _login(random: Random, _number: int) -> tuple[Sent, ...]:
    def part(value: Any) -> bytes:
        if random.random() < 0.5:
            value = change_value(random, value)
        return base64.urlsafe_b64encode(dump(value)).rstrip(b"=")

    claims = {
        "iss": "https://kubernetes.default.svc.cluster.local",
        "sub": "system:serviceaccount:default:default",
        "aud": ["https://kubernetes.default.svc.cluster.local"],
        "exp": 4_000_000_000,
        "iat": 1,
        "nbf": 1,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "default", "uid": "a"}},
    }
    token = b".".join((part({"alg": "ES256", "kid": "a", "typ": "JWT"}), part(claims), b"A" * 86))
    if random.random() < 0.4:
        token = change_bytes(random, token)
    text = token.decode("latin-1")
    text = "".join(letter for letter in text if letter > " " and letter != "\x7f")[:50_000]
    if random.random() < 0.5:
        body = dump({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}})
        return (request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body),)
    return (Sent(head("GET", "/api/v1/secrets", token=text or "a"), True, 401),)


def _subresource(random: Random, number: int) -> tuple[Sent, ...]:
    """Bodies of subresources with their own kind."""
    name = f"raw-{number}"
    pods, accounts = f"/api/v1/namespaces/{NAMESPACE}/pods", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    target, obj = random.choice(
        (
            (
                f"{pods}/{name}/binding",
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name},
                    "target": {"kind": "Node", "name": "n"},
                },
            ),
            (
                f"{pods}/{name}/eviction",
                {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": {}},
            ),
            (
                f"{accounts}/default/token",
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"audiences": ["a"], "expirationSeconds": 600},
                },
            ),
            (
                "/apis/apps/v1/namespaces/raw/deployments/none/scale",
                {
                    "apiVersion": "autoscaling/v1",
                    "kind": "Scale",
                    "metadata": {"name": "none"},
                    "spec": {"replicas": 1},
                },
            ),
        )
    )
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body, content_type = _encoded(random, change_value(random, obj))
    method = "PUT" if target.endswith("scale") else "POST"
    return (
        request("POST", pods, dump(pod)),
        request(method, _parameters(random, target), body, content_type, _accept(random)),
        request("DELETE", f"{pods}/{name}?gracePeriodSeconds=0"),
    )


_WEIGHTS: dict[Callable[[Random, int], tuple[Sent, ...]], int] = {
    _create: 30,
    _cbor_body: 2,
    _patch: 22,
    _update: 10,
    _delete: 5,
    _read: 14,
    _path: 7,
    _head: 6,
    _login: 4,
    _subresource: 4,
}
