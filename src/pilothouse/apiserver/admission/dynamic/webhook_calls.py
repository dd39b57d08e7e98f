"""The HTTP client for webhooks: posts a review over TLS and reads the response.

A Service is called at one of its ready endpoints (``service_resolver``) or at its external name; the certificate must
be valid for ``<service>.<namespace>.svc``. Error messages are Go's where clients match them. On an
event loop without sockets every call fails.
"""

import asyncio
import base64
import binascii
import posixpath
import socket  # noqa: TID251  # options of the loop's own sockets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote as percent
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

from pilothouse.apiserver.admission.dynamic.service_resolver import ResolveError, resolve_endpoint
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object
from pilothouse.env.dialing import NotConnected, connect, tls_handshake
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.trust import trust_as_go
from pilothouse.machinery.go_text import quote
from pilothouse.serving.budget import Budget

with lazy_imports():
    import httptools  # a server without a port needs it only when a webhook is called

_MAX_RESPONSE_BYTES = 8 << 20
"""Bytes of one response, headers included: room for a base64 patch that replaces an object of 3 MiB, twice."""
_INCOMPLETE_RESPONSES = Budget(24 << 20)
"""Bytes of all incomplete responses together."""
_MAX_REQUESTS = 10  # the first and nine redirects (net/http ``defaultCheckRedirect``)
_MAX_RETRIES = 10  # client-go ``rest/request.go``
_REDIRECTS = {301: "GET", 302: "GET", 303: "GET", 307: "POST", 308: "POST"}
_MAX_DIGITS = 10
_BODY_ERROR = (
    "unexpected error when reading response body. Please retry. Original error"  # client-go ``rest/request.go``
)
_TLS_SECONDS = 10.0  # client-go's TLS handshake timeout


class CallError(Exception):
    """The webhook could not be called, or its response is invalid."""


class Target(msgspec.Struct, frozen=True):
    """The resolved address of a webhook. ``url`` is used in errors; the connection is opened to ``host`` and
    ``port``."""

    url: str
    host: str
    port: int
    server_name: str
    path: str
    ca_bundle: str = ""
    traceparent: str = ""
    """The request header with the span of the call; "" if tracing is disabled."""


Send = Callable[[Target, bytes], Awaitable[tuple[int, bytes]]]
"""Posts a body and returns status and body of the response; raises ``CallError``. The caller applies the timeout, and
``check_status``."""


def find_target(core: Core, config: Object, timeout: int) -> Target:
    """Resolve a ``clientConfig``. Raises ``CallError``."""
    ca_bundle, query = config.get("caBundle") or "", f"?timeout={timeout}s"
    service = config.get("service")
    if service is None:
        config_url = config.get("url") or ""
        parsed = urlsplit(config_url)
        host = parsed.hostname or ""
        path = _clean_path(unquote(parsed.path))
        url = f"https://{parsed.netloc}{path}{query}"
        return Target(url, host, parsed.port or 443, host, path + query, ca_bundle)
    name, namespace, port = service.get("name") or "", service.get("namespace") or "", service.get("port") or 443
    path = _clean_path(service.get("path") or "")
    server_name = f"{name}.{namespace}.svc"
    url = f"https://{server_name}:{port}{path}{query}"
    try:
        host, number = resolve_endpoint(core, namespace, name, port)
    except ResolveError as error:
        raise CallError(f"Post {quote(url)}: {error}") from None
    return Target(url, host, number, server_name, path + query, ca_bundle)


def _clean_path(path: str) -> str:
    """The path as client-go's rest ``NewRequest`` joins it to ``/``: without empty segments and a trailing slash.

    envtest relies on it: it prepends a slash to every path.
    """
    return percent(posixpath.normpath("/" + path.lstrip("/")), safe="/$&+,:;=@")


async def send(target: Target, body: bytes) -> tuple[int, bytes]:
    """POST with the retries of client-go's rest client: after a 429 or 5xx with a Retry-After header."""
    for _ in range(_MAX_RETRIES):
        response = await _do(target, body)
        if response.retry_after is None or not (response.status == 429 or response.status >= 500):
            break
        await asyncio.sleep(response.retry_after)
    else:
        response = await _do(target, body)
    body = bytes(response.body)
    check_status(response.status, body, response.content_type)
    if not body:
        content_type = response.content_type
        raise CallError(f"0-length response with status code: {response.status} and content type: {content_type}")
    return response.status, body


async def _do(target: Target, body: bytes) -> "_Response":
    """One POST on a new connection, with redirects followed as by Go's ``http.Client``."""
    current, method = target, "POST"
    for _ in range(_MAX_REQUESTS):
        response = await _round_trip(current, method, body if method == "POST" else b"")
        if response.status not in _REDIRECTS or not response.location:
            return response
        if method == "POST":
            method = _REDIRECTS[response.status]
        current = _redirected(target, current, response.location)
    raise CallError(f"Post {quote(response.location)}: stopped after {_MAX_REQUESTS} redirects")


def _redirected(target: Target, current: Target, location: str) -> Target:
    """The target of a redirect. Its certificate must still be valid for the name of a Service."""
    try:
        url = urljoin(current.url, location)
        parsed = urlsplit(url)
        port = parsed.port or 443
    except ValueError as error:
        raise _post_error(target, f"failed to parse Location header {quote(location)}: {error}") from None
    if parsed.scheme != "https" or not parsed.hostname:
        raise _post_error(target, f"redirected to {quote(url)}, which is not an https URL")
    path = (parsed.path or "/") + (f"?{parsed.query}" if parsed.query else "")
    if parsed.netloc == urlsplit(target.url).netloc:
        return msgspec.structs.replace(target, url=url, path=path)
    is_service = target.server_name != target.host
    name = target.server_name if is_service else parsed.hostname
    return Target(url, parsed.hostname, port, name, path, target.ca_bundle, target.traceparent)


async def _round_trip(target: Target, method: str, body: bytes) -> "_Response":
    span = f"Traceparent: {target.traceparent}\r\n" if target.traceparent else ""
    head = (
        f"{method} {target.path} HTTP/1.1\r\nHost: {urlsplit(target.url).netloc}\r\n"
        "User-Agent: kube-apiserver-admission\r\n"
        f"Content-Type: application/json\r\nAccept: application/json, */*\r\nContent-Length: {len(body)}\r\n"
        f"{span}Connection: close\r\n\r\n"
    ).encode()
    try:
        reader, writer = await _open(target)
    except NotImplementedError:
        # Raised by asyncio's base class for unimplemented methods of a loop; ``env.virtual`` has no getaddrinfo.
        raise _post_error(target, "webhooks cannot be called: this event loop has no network") from None
    except NotConnected as error:
        raise _post_error(target, _dial_error(target, error.failures[0])) from None
    except OSError as error:
        raise _post_error(target, _dial_error(target, error)) from None
    except ValueError:  # a name that is not allowed in DNS or TLS; after OSError, as some errors of TLS are both
        raise _post_error(target, f"dial tcp: lookup {target.host}: no such host") from None
    try:
        writer.write(head + body)
        async with asyncio.timeout(None) as limit:
            with _INCOMPLETE_RESPONSES.hold(limit) as reservation:
                return await _read(reader, lambda size: _INCOMPLETE_RESPONSES.grow(reservation, size))
    except TimeoutError as error:
        # Raised by the socket or the budget: the caller's timeout cancels the task instead.
        raise _post_error(target, str(error) or "the pending responses of webhooks exceed the memory limit") from None
    except (OSError, asyncio.IncompleteReadError, httptools.HttpParserError) as error:
        raise _post_error(target, str(error) or "EOF") from None
    except httptools.HttpParserUpgrade:
        raise _post_error(target, "the webhook switched protocols") from None
    finally:
        writer.close()


async def _open(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the webhook. May be cancelled at any time by the caller's timeout."""
    loop, context = asyncio.get_running_loop(), await _ssl_context(target.ca_bundle)
    sock = await connect(loop, await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM), _set_no_delay)
    # The limit is high enough that reading never pauses: asyncio's TLS loses data if the peer closes while it is paused
    # (``sslproto._do_flush``, Python 3.11 to 3.13).
    reader = asyncio.StreamReader(limit=_MAX_RESPONSE_BYTES, loop=loop)
    transport, protocol = await tls_handshake(
        loop, sock, lambda: asyncio.StreamReaderProtocol(reader, loop=loop), context, target.server_name, _TLS_SECONDS
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _set_no_delay(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Response:
    """The response; has the callbacks of httptools' parser."""

    def __init__(self) -> None:
        self.status = 0
        self.location = ""
        self.content_type = ""
        self.has_length = False
        """Whether the headers delimit the body; otherwise it ends with the connection."""
        self.retry_after: int | None = None
        """Seconds; None without the header, or if it is not a number."""
        self.body = bytearray()
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"location":
            self.location = value.decode("latin-1")
        elif name.lower() == b"content-type":
            self.content_type = value.decode("latin-1")
        elif name.lower() in (b"content-length", b"transfer-encoding"):
            self.has_length = True
        elif name.lower() == b"retry-after" and value.isdigit() and len(value) < _MAX_DIGITS:
            self.retry_after = int(value)

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


async def _read(reader: asyncio.StreamReader, reserve: Callable[[int], None]) -> _Response:
    response = _Response()
    parser: Any = httptools.HttpResponseParser(response)
    started = False
    received = 0
    while not response.complete:
        data = await reader.read(1 << 16)
        if not data:
            if not started:
                raise OSError("EOF")
            if response.has_length:
                raise CallError(f"{_BODY_ERROR}: unexpected EOF")
            break  # a body without a length ends with its connection
        started = True
        reserve(len(data))
        received += len(data)
        parser.feed_data(data)
        if received > _MAX_RESPONSE_BYTES:
            raise OSError("the response is too large")
    response.status = parser.get_status_code()
    return response


_END = "-----END CERTIFICATE-----"
_CERTIFICATES_PER_CHUNK = 50  # parsed in a few milliseconds
_MAX_CONTEXTS = 64
_contexts: dict[str, ssl.SSLContext] = {}


async def _ssl_context(ca_bundle: str) -> ssl.SSLContext:
    """The TLS context for a ``caBundle``, cached. A bundle may have thousands of certificates: it is parsed in chunks,
    so that other tasks can run in between."""
    cached = _contexts.get(ca_bundle)
    if cached is not None:
        return cached
    try:
        first_chunk, *remaining_chunks = _split_bundle(base64.b64decode(ca_bundle).decode("ascii"))
        context = ssl.create_default_context(cadata=first_chunk or None)
        for chunk in remaining_chunks:
            await asyncio.sleep(0)
            context.load_verify_locations(cadata=chunk)
    except (ssl.SSLError, binascii.Error, UnicodeDecodeError):
        raise CallError("unable to load root certificates: unable to parse bytes as PEM block") from None
    trust_as_go(context)
    while len(_contexts) >= _MAX_CONTEXTS:
        del _contexts[next(iter(_contexts))]
    _contexts[ca_bundle] = context
    return context


def _split_bundle(bundle: str) -> list[str]:
    """The text of a bundle in chunks of certificates; text after the last certificate is part of the last chunk."""
    texts = bundle.split(_END)
    if len(texts) <= _CERTIFICATES_PER_CHUNK:
        return [bundle]
    certificates = [f"{text}{_END}" for text in texts[:-1]]
    chunks = [
        "".join(certificates[start : start + _CERTIFICATES_PER_CHUNK])
        for start in range(0, len(certificates), _CERTIFICATES_PER_CHUNK)
    ]
    chunks[-1] += texts[-1]
    return chunks


def _post_error(target: Target, reason: str) -> CallError:
    return CallError(f"Post {quote(target.url)}: {reason}")


def timed_out(target: Target) -> CallError:
    """The error of a call that exceeded ``timeoutSeconds``."""
    return _post_error(target, "context deadline exceeded")


def _dial_error(target: Target, error: OSError) -> str:
    address = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        messages = {
            62: f"x509: certificate is not valid for {target.server_name}: {error.verify_message}",
            10: "x509: certificate has expired or is not yet valid",
        }
        return "tls: failed to verify certificate: " + messages.get(
            error.verify_code, "x509: certificate signed by unknown authority"
        )
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {address}: connect: connection refused"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {target.host}: no such host"
    return f"dial tcp {address}: {error}"


_STATUSES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_MAX_ERROR_TEXT = 2048


def check_status(status: int, body: bytes, content_type: str = "") -> None:
    """Raise ``CallError`` for a status other than 200 to 206, as client-go's ``transformResponse``: with the message of
    a Status, or a text by its code, with the body if that is text. ``content_type`` "" is text."""
    if 200 <= status <= _PARTIAL_CONTENT:
        return
    if message := _status_message(body):
        raise CallError(message)
    text = "unknown"
    if not content_type or content_type.startswith("text/"):
        text = body[:_MAX_ERROR_TEXT].decode(errors="replace").strip() or text
    if status in (403, 415) or (status == 406 and text != "unknown"):
        raise CallError(text)
    detail = _STATUSES.get(status)
    if detail is None and status >= 500:
        detail = f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    raise CallError(detail or f"the server responded with the status code {status} but did not return more information")


_PARTIAL_CONTENT = 206


class _ErrorStatus(msgspec.Struct):
    """The parts of a Status."""

    kind: str = ""
    apiVersion: str = ""  # noqa: N815  # its name in JSON
    status: str = ""
    message: str = ""


def _status_message(body: bytes) -> str:
    """The message of a Status in the body, or ""."""
    try:
        error = msgspec.json.decode(body, type=_ErrorStatus)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    is_status = (error.kind, error.apiVersion) == ("Status", "v1") and error.status != "Success"
    return error.message if is_status else ""


VERSIONS = ("v1", "v1beta1")
"""The versions of AdmissionReview and ConversionReview."""
_SCHEME = '"k8s.io/apiserver/pkg/util/webhook/client.go:71"'


def check_registered(review: Mapping[str, Any], group: str, version: str, kind: str) -> None:
    """Check that the kind of a response is in the scheme of upstream's client, which has both versions of the review.

    Absent fields are those of the request. Raises ``CallError``."""
    sent_version, sent_kind = review.get("apiVersion") or f"{group}/{version}", review.get("kind") or kind
    if sent_version.count("/") > 1:
        raise CallError(f"unexpected GroupVersion string: {sent_version}")
    if (sent_version, sent_kind) == ("v1", "Status"):
        raise CallError(f"converting (v1.Status) to ({version}.{kind}): unknown conversion")
    sent_group, _slash, sent_version_name = sent_version.rpartition("/")
    if sent_group != group or sent_version_name not in VERSIONS or sent_kind != kind:
        raise CallError(
            f"no kind {quote(sent_kind)} is registered for version {quote(sent_version)} in scheme {_SCHEME}"
        )
    if sent_version_name != version:
        raise CallError(f"converting ({sent_version_name}.{kind}) to ({version}.{kind}): unknown conversion")
