"""An API server over plain HTTP: without authentication, every caller is the administrator.

For tests on loopback. A web page must not be able to use it: a browser on the same machine can reach the port, and a
page whose name resolves to 127.0.0.1 (DNS rebinding) can even read the responses. So the request's host must be this
machine, and it must not have an ``Origin`` header. Of other programs only clients of WebSockets send one, because
kube-apiserver requires it in a handshake. It has to be the address of the server, which that of a page never is.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from pilothouse.apiserver.asgi import Receive, Scope, Send
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.serializers.json import failure
from pilothouse.serving.hosts import is_own_host

App = Callable[[Scope, Receive, Send], Awaitable[None]]


def everyone_is_admin(application: App, token: str, hosts: Iterable[str] = ()) -> App:
    """The application for callers of this machine, as the administrator whose token this is. ``hosts`` are further
    names of the machine."""
    login = (b"authorization", f"Bearer {token}".encode())
    names = {"localhost", *(host.lower() for host in hosts)}

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope.get("headers")
        if isinstance(headers, list):
            error = _check(headers, names)
            if error:
                await _reject(error, send)
                return
            if not any(name == b"authorization" for name, _value in headers):
                scope = {**scope, "headers": [*headers, login]}
        await application(scope, receive, send)

    return serve


def _check(headers: Sequence[tuple[bytes, bytes]], names: Collection[str]) -> str:
    """Why a request with these headers is rejected; empty if it is not."""
    hosts = [value for name, value in headers if name == b"host"]
    for host in (value.decode("latin-1") for value in hosts):
        if not is_own_host(host, names):
            return f"the host {host} is not this machine; over plain HTTP only its own names are served"
    origins = {value for name, value in headers if name == b"origin"}
    if not origins:
        return ""
    is_handshake = any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers)
    if is_handshake and origins == {b"http://" + host for host in hosts}:
        return ""
    return "requests of web pages, which have an Origin, are not served over plain HTTP"


async def _reject(reason: str, send: Send) -> None:
    response = failure(StatusError(403, "Forbidden", reason, details={}))
    headers = {**response.headers, "content-length": str(len(response.body))}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    await send({"type": "http.response.body", "body": response.body})
