"""Sends an AdmissionReview to a webhook, over TLS, and reads the answer.

A service is called at a ready endpoint of it (there is no kube-proxy that would route its cluster IP), or at its
external name; the certificate must be for ``<service>.<namespace>.svc``. Errors have Go's words where clients match
them. Nothing is called on a loop without sockets.
"""

import asyncio
import base64
import binascii
import posixpath
import socket  # noqa: TID251  # options of the loop's own sockets
import ssl
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote as percent
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.env.dialing import NotConnected, connect, shake_hands
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.trust import trust_as_go
from pilothouse.machinery.go_text import quote
from pilothouse.serving.budget import Budget

with lazy_imports():
    import httptools  # a server without a port does without it, until a webhook is called

_LARGEST = 8 << 20
"""Bytes of one answer, headers included: a patch that replaces a whole object of 3 MiB, in base64, twice."""
_UNFINISHED = Budget(24 << 20)
"""What answers hold together that are not complete."""
_MOST_REQUESTS = 10  # of which the first is no redirect (net/http ``defaultCheckRedirect``)
_MOST_RETRIES = 10  # client-go ``rest/request.go``
_REDIRECTS = {301: "GET", 302: "GET", 303: "GET", 307: "POST", 308: "POST"}
_MOST_DIGITS = 10
_UNREAD = "unexpected error when reading response body. Please retry. Original error"  # client-go ``rest/request.go``
_TLS_SECONDS = 10.0  # client-go's; the webhook's own time is seldom longer


class CallError(Exception):
    """A webhook that could not be asked, or whose answer is none."""


class Target(msgspec.Struct, frozen=True):
    """Where a webhook is: what the error names, and where the connection goes."""

    url: str
    host: str
    port: int
    server_name: str
    path: str
    ca_bundle: str = ""
    traceparent: str = ""
    """The span of the call, where it is traced."""


Send = Callable[[Target, bytes], Awaitable[tuple[int, bytes]]]
"""Posts a body and returns status and body of the answer; raises ``CallError``. The caller has the clock."""


def find_target(core: Core, config: Object, timeout: int) -> Target:
    """Resolve a ``clientConfig``. Raises ``CallError``."""
    ca_bundle, query = config.get("caBundle") or "", f"?timeout={timeout}s"
    service = config.get("service")
    if service is None:
        url = config.get("url") or ""
        parts = urlsplit(url)
        host = parts.hostname or ""
        path = _cleaned(unquote(parts.path))
        shown = f"https://{parts.netloc}{path}{query}"
        return Target(shown, host, parts.port or 443, host, path + query, ca_bundle)
    name, namespace, port = service.get("name") or "", service.get("namespace") or "", service.get("port") or 443
    path = _cleaned(service.get("path") or "")
    server_name = f"{name}.{namespace}.svc"
    shown = f"https://{server_name}:{port}{path}{query}"
    try:
        host, number = _resolve(core, namespace, name, port)
    except CallError as error:
        raise CallError(f"Post {quote(shown)}: {error}") from None
    return Target(shown, host, number, server_name, path + query, ca_bundle)


def _cleaned(path: str) -> str:
    """The path that client-go asks for (rest ``NewRequest``): joined to ``/``, so without empty parts and a last slash.

    envtest, which puts a slash before every path, counts on it.
    """
    return percent(posixpath.normpath("/" + path.lstrip("/")), safe="/$&+,:;=@")


def _resolve(core: Core, namespace: str, name: str, port: int) -> tuple[str, int]:
    record = core.store.staged(f"{storage_prefix('', 'services')}{namespace}/{name}")
    if record is None:
        raise CallError(f"service {quote(name)} not found")
    spec = decode(record.value).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return spec.get("externalName") or "", port
    desired = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
    if desired is None:
        raise CallError(f"no service port {port} found for service {quote(name)}")
    prefix = f"{storage_prefix('discovery.k8s.io', 'endpointslices')}{namespace}/"
    for found in core.store.list(prefix).records:
        piece = decode(found.value)
        if (piece["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
            continue
        number = next(
            (one.get("port") for one in piece.get("ports") or () if one.get("name", "") == desired.get("name", "")),
            None,
        )
        for endpoint in piece.get("endpoints") or ():
            if number and endpoint.get("addresses") and (endpoint.get("conditions") or {}).get("ready") is not False:
                return endpoint["addresses"][0], number
    raise CallError(f"no endpoints available for service {quote(name)}")


async def send(target: Target, body: bytes) -> tuple[int, bytes]:
    """POST until the webhook does not ask to be called later, as client-go's rest client does: an answer that has a
    Retry-After is asked for again, if it is a 429 or an error of the server."""
    for _ in range(_MOST_RETRIES):
        answer = await _follow(target, body)
        if answer.retry_after is None or not (answer.status == 429 or answer.status >= 500):
            break
        await asyncio.sleep(answer.retry_after)
    else:
        answer = await _follow(target, body)
    return answer.status, bytes(answer.body)


async def _follow(target: Target, body: bytes) -> "_Answer":
    """One POST on a connection of its own, and on to where an answer points, as Go's http.Client goes."""
    there, method = target, "POST"
    for _ in range(_MOST_REQUESTS):
        answer = await _ask(there, method, body if method == "POST" else b"")
        if answer.status not in _REDIRECTS or not answer.location:
            return answer
        if method == "POST":
            method = _REDIRECTS[answer.status]
        there = _redirected(target, there, answer.location)
    raise _failed(target, f"stopped after {_MOST_REQUESTS} redirects")


def _redirected(target: Target, there: Target, location: str) -> Target:
    """Another place, in whose certificate a service's name still counts."""
    url = urljoin(there.url, location)
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise _failed(target, f"redirected to {quote(url)}, which is no https URL")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.netloc == urlsplit(target.url).netloc:
        return msgspec.structs.replace(target, url=url, path=path)
    is_service = target.server_name != target.host
    name = target.server_name if is_service else parts.hostname
    return Target(url, parts.hostname, parts.port or 443, name, path, target.ca_bundle, target.traceparent)


async def _ask(target: Target, method: str, body: bytes) -> "_Answer":
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
        # asyncio's base class of loops says so of each method that a loop lacks; env.virtual's has no getaddrinfo.
        raise _failed(target, "webhooks are called over the network, and this event loop has none") from None
    except NotConnected as error:
        raise _failed(target, _words(target, error.failures[0])) from None
    except OSError as error:
        raise _failed(target, _words(target, error)) from None
    try:
        writer.write(head + body)
        async with asyncio.timeout(None) as limit:
            with _UNFINISHED.hold(limit) as held:
                return await _read(reader, lambda size: _UNFINISHED.grow(held, size))
    except TimeoutError as error:
        # The caller's clock cancels; this is the socket's, or the budget's.
        raise _failed(target, str(error) or "the answers of webhooks take too much room") from None
    except (OSError, asyncio.IncompleteReadError, httptools.HttpParserError) as error:
        raise _failed(target, str(error) or "EOF") from None
    finally:
        writer.close()


async def _open(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the webhook. The caller's clock may run out at any moment."""
    loop, context = asyncio.get_running_loop(), await _context(target.ca_bundle)
    sock = await connect(loop, await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM), _at_once)
    # It never has so much to hold that it pauses: asyncio's TLS loses what follows when the other side closes meanwhile
    # (``sslproto._do_flush``, Python 3.11 to 3.13).
    reader = asyncio.StreamReader(limit=_LARGEST, loop=loop)
    transport, protocol = await shake_hands(
        loop, sock, lambda: asyncio.StreamReaderProtocol(reader, loop=loop), context, target.server_name, _TLS_SECONDS
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _at_once(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Answer:
    """Collects what the parser finds."""

    def __init__(self) -> None:
        self.status = 0
        self.location = ""
        self.says_length = False
        """Whether the end of the connection is not the end of the body."""
        self.retry_after: int | None = None
        """Seconds; None where the answer does not say so in a number."""
        self.body = bytearray()
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"location":
            self.location = value.decode("latin-1")
        elif name.lower() in (b"content-length", b"transfer-encoding"):
            self.says_length = True
        elif name.lower() == b"retry-after" and value.isdigit() and len(value) < _MOST_DIGITS:
            self.retry_after = int(value)

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


async def _read(reader: asyncio.StreamReader, hold: Callable[[int], None]) -> _Answer:
    answer = _Answer()
    parser: Any = httptools.HttpResponseParser(answer)
    begun = False
    received = 0
    while not answer.complete:
        data = await reader.read(1 << 16)
        if not data:
            if not begun:
                raise OSError("EOF")
            if answer.says_length:
                raise CallError(f"{_UNREAD}: unexpected EOF")
            break  # a body without a length ends with its connection
        begun = True
        hold(len(data))
        received += len(data)
        parser.feed_data(data)
        if received > _LARGEST:
            raise OSError("the answer is too large")
    answer.status = parser.get_status_code()
    return answer


_END = "-----END CERTIFICATE-----"
_AT_ONCE = 50  # certificates: some milliseconds
_MOST_CONTEXTS = 64
_contexts: dict[str, ssl.SSLContext] = {}


async def _context(ca_bundle: str) -> ssl.SSLContext:
    """The trusted authorities. A bundle may have thousands of certificates, and others wait while they are read."""
    known = _contexts.get(ca_bundle)
    if known is not None:
        return known
    try:
        first, *more = _pieces(base64.b64decode(ca_bundle).decode("ascii"))
        context = ssl.create_default_context(cadata=first or None)
        for piece in more:
            await asyncio.sleep(0)
            context.load_verify_locations(cadata=piece)
    except (ssl.SSLError, binascii.Error, UnicodeDecodeError):
        raise CallError("unable to load root certificates: unable to parse bytes as PEM block") from None
    trust_as_go(context)
    while len(_contexts) >= _MOST_CONTEXTS:
        del _contexts[next(iter(_contexts))]
    _contexts[ca_bundle] = context
    return context


def _pieces(bundle: str) -> list[str]:
    """The text of a bundle, so many certificates a piece; what follows the last one stays with it."""
    found = bundle.split(_END)
    if len(found) <= _AT_ONCE:
        return [bundle]
    whole = [f"{text}{_END}" for text in found[:-1]]
    pieces = ["".join(whole[at : at + _AT_ONCE]) for at in range(0, len(whole), _AT_ONCE)]
    pieces[-1] += found[-1]
    return pieces


def _failed(target: Target, reason: str) -> CallError:
    return CallError(f"Post {quote(target.url)}: {reason}")


def timed_out(target: Target) -> CallError:
    """The error of a webhook that did not answer in time."""
    return _failed(target, "context deadline exceeded")


def _words(target: Target, error: OSError) -> str:
    address = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        known = {
            62: f"x509: certificate is not valid for {target.server_name}: {error.verify_message}",
            10: "x509: certificate has expired or is not yet valid",
        }
        return "tls: failed to verify certificate: " + known.get(
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
    403: "unknown",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    503: "the server is currently unable to handle the request",
}


def error_status(status: int, body: bytes) -> CallError:
    """The error of an answer that is no 200 (client-go's ``NewGenericServerResponse``)."""
    detail = _STATUSES.get(status)
    if detail is None:
        text = body.decode(errors="replace").strip() or "unknown"
        detail = f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    return CallError(detail)
