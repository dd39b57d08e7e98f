"""A conversion webhook over HTTPS on loopback, in separate threads."""

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.apiserver.apiextensions.conversion.things import good

from pilothouse.env import Env
from pilothouse.serving.certificates import create_authority, issue_server

Object = dict[str, Any]


class ConversionWebhook:
    """Serves from ``__enter__`` to ``__exit__``. ``answer`` creates the response, and may be replaced; ``requests`` has
    the requested conversions: names of objects and their new versions."""

    def __init__(self, directory: Path) -> None:
        now = Env().now()
        authority = create_authority("webhooks", now)
        pair = issue_server(authority, ["127.0.0.1", "localhost"], now)
        pair.save(directory / "webhook.crt", directory / "webhook.key")
        self.ca_bundle = base64.b64encode(authority.certificate).decode()
        self.answer: Callable[[Object], Object] = good
        self.requests: list[tuple[str, str]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["content-length"])))
                wanted = review["request"]["desiredAPIVersion"].rpartition("/")[2]
                hook.requests += [(obj["metadata"]["name"], wanted) for obj in review["request"]["objects"]]
                response = hook.answer(review["request"])
                body = json.dumps({**review, "response": response}, separators=(",", ":")).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as it is called
                """Nothing is logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(directory / "webhook.crt", directory / "webhook.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, name="conversion webhook", daemon=True)

    @property
    def config(self) -> Object:
        """The ``clientConfig`` of this webhook."""
        return {"url": f"https://127.0.0.1:{self._server.server_port}/convert", "caBundle": self.ca_bundle}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=20)
