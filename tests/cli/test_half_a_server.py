"""An API server that is healthy and serves Leases, but no discovery."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs import run_pilothouse

STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}


class Handler(http.server.BaseHTTPRequestHandler):
    """Responds as the module describes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self.answer(200, "ok")
        elif "/leases/" in self.path:
            self.answer(404, {**STATUS, "reason": "NotFound", "code": 404, "message": "no such lease"})
        else:
            self.answer(500, {**STATUS, "message": "the group list is broken"})

    def do_POST(self) -> None:
        self.answer(201, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    do_PUT = do_POST  # noqa: N815  # the base class' way to name it

    def answer(self, code: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        return None


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("elect", ["true", "false"])
def test_manager_ends_with_one_error_line(tmp_path: Path, port: int, elect: str) -> None:
    flags = [f"--master=http://127.0.0.1:{port}", "--secure-port=0", f"--leader-elect={elect}"]
    done = run_pilothouse(tmp_path, "manager", *flags)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Error: the group list is broken"
    assert "Traceback" not in done.stderr
