"""An API server over plain HTTP: without authentication, every caller is the administrator.

For tests on loopback. A web page must not be able to use it: a browser on the same machine can reach the port, and a
page whose name resolves to 127.0.0.1 (DNS rebinding) can even read the responses. So the request's host must be this
machine, and it must not have an ``Origin`` header, which only browsers send.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable

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
            error = _check_host(headers, names)
            if error:
                await _reject(error, send)
                return
            if not any(name == b"authorization" for name, _value in headers):
                scope = {**scope, "headers": [*headers, login]}
        await application(scope, receive, send)

    return serve


def _check_host(headers: Iterable[tuple[bytes, bytes]], names: Collection[str]) -> str:
    for name, value in headers:
        if name == b"origin":
            return "requests of web pages are not served over plain HTTP"
        if name == b"host" and not is_own_host(value.decode("latin-1"), names):
            return (
                f"the host {value.decode('latin-1')} is not this machine; over plain HTTP only its own names are served"
            )
    return ""


async def _reject(reason: str, send: Send) -> None:
    response = failure(StatusError(403, "Forbidden", reason, details={}))
    headers = {**response.headers, "content-length": str(len(response.body))}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    await send({"type": "http.response.body", "body": response.body})
