"""The ``etcd`` of a test suite's assets: it reports that it is healthy, and provides the directory for the API server's
data.

The embedded API server has its own storage. Suites expect from etcd that it accepts etcd's flags, serves ``/health``,
keeps its data while the API server restarts, and exits on SIGTERM. The stand-in for the API server requests the data
directory at ``DATA_PATH``. etcd's protocol is not implemented.
"""

import json
import re
import signal
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from pilothouse.cli.clientside import common_flags
from pilothouse.cli.program import parse
from pilothouse.cli.tolerant import known_words, warn
from pilothouse.machinery.flags import BOOL, STRING, STRINGS, Flag, FlagSet

USAGE = """A replacement for etcd, for test suites that start it together with the kube-apiserver of the same directory.

It stores nothing and does not implement etcd's protocol: only that kube-apiserver can use it.

Usage:
  {program} [flags]
"""
DATA_PATH = "/pilothouse/data"
VERSION = {"etcdserver": "3.6.0", "etcdcluster": "3.6.0"}


def flag_set(program: str) -> FlagSet:
    """The flags with an effect; others are accepted with a warning."""
    flags = FlagSet(USAGE.format(program=program))
    flags.add(
        "etcd",
        Flag("listen-client-urls", STRINGS, ("http://localhost:2379",), "List of URLs to listen on for client traffic"),
        Flag("data-dir", STRING, "default.etcd", "Path to the data directory"),
        Flag("unsafe-no-fsync", BOOL, False, "Disables fsync, unsafe, will cause data loss"),
        Flag("advertise-client-urls", STRINGS, (), "Accepted, no effect"),
        Flag("listen-peer-urls", STRINGS, (), "Accepted, no effect"),
        Flag("version", BOOL, False, "Prints the version and exits"),
    )
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Serve until a signal."""
    flags = flag_set(program)
    known, unknown = known_words(flags, [_with_two_dashes(word) for word in args])
    parsed = parse(flags, program, known)
    if isinstance(parsed, int):
        return parsed
    if parsed["version"]:
        print(f"etcd Version: {VERSION['etcdserver']}")
        return 0
    warn(unknown)
    directory = Path(parsed["data-dir"]).absolute()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        server = _listen(parsed["listen-client-urls"])
    except (OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    _Handler.documents = {
        "/health": {"health": "true", "reason": ""},
        "/version": VERSION,
        DATA_PATH: {"directory": str(directory), "fsync": not parsed["unsafe-no-fsync"]},
    }
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    server.serve_forever()
    return 0


def _with_two_dashes(word: str) -> str:
    """etcd takes flags as Go's ``flag`` does, ``-data-dir`` for ``--data-dir``; fabric8's kube-api-test passes both."""
    return f"-{word}" if re.match(r"-[a-z]{2}", word) else word


def _listen(urls: Sequence[str]) -> ThreadingHTTPServer:
    if len(urls) != 1:
        raise ValueError(f"--listen-client-urls must be one URL here, got {len(urls)}")
    url = urlsplit(urls[0])
    if url.scheme != "http" or url.port is None:
        raise ValueError(f"--listen-client-urls must be http://HOST:PORT here, got {urls[0]}")
    try:
        return ThreadingHTTPServer((url.hostname or "", url.port), _Handler)
    except OSError as error:
        raise OSError(f"can't listen on {url.netloc}: {error.strerror}") from error


def _end(_number: int, _frame: FrameType | None) -> None:
    # There is nothing to clean up.
    sys.exit(0)


class _Handler(BaseHTTPRequestHandler):
    documents: dict[str, object]

    def do_GET(self) -> None:  # the name that http.server calls
        document = self.documents.get(self.path.partition("?")[0])
        body = b"404 page not found\n" if document is None else json.dumps(document).encode()
        self.send_response(404 if document is None else 200)
        self.send_header("Content-Type", "text/plain" if document is None else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Log nothing: health is requested ten times a second."""
