"""A ``pilothouse up`` process under attack, and its invariants.

``AttackedPlane`` starts one process, and a probe (``livez_probe``) in another process that polls ``/livez``, so that
neither the attacker's work nor the interpreter's lock affects the measurement. ``bounded`` is the guarantee: during an
attack the plane responds in time, its memory grows by a limited amount, and it keeps running.
"""

import contextlib
import http.client
import json
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
import yaml
from tests import stores
from tests.connections import insecure_context
from tests.programs import Program, environment, pilothouse

LIVEZ_SECONDS = 0.25
"""The maximum latency of ``/livez``."""
GROWTH_BYTES = 64 * 1024 * 1024
"""The maximum memory growth by one attack."""
USER, USER_TOKEN = "mallory", "token-of-mallory"
"""An authenticated user: everything is allowed by default, and only the basic roles with RBAC."""

_NO_ANSWER_SECONDS = 60.0


class Attack(NamedTuple):
    """One attack: the actions, and an ``AssertionError`` for an unacceptable response."""

    name: str
    send: "Callable[[AttackedPlane], None]"
    flags: tuple[str, ...] = ()
    """Flags of ``pilothouse up``. Attacks with the same flags share a process."""


RBAC = ("--authorization-mode=RBAC",)


class Slow(AssertionError):
    """``/livez`` exceeded its maximum latency."""


class Answer(NamedTuple):
    """The response."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


class Sample(msgspec.Struct, frozen=True):
    """One sample of the probe; see ``livez_probe``."""

    at: float
    kept: float
    fresh: float
    resident: int
    failure: str


class AttackedPlane:
    """One ``pilothouse up`` and its probe, within a ``with`` block."""

    def __init__(self, directory: Path, flags: tuple[str, ...] = ()) -> None:
        tokens = directory / "tokens.csv"
        tokens.write_text(f"{USER_TOKEN},{USER},uid-of-{USER}\n")
        self._directory = directory
        self.program = pilothouse(
            directory, "up", "--port=0", "--nodes=1", f"--token-auth-file={tokens}", *stores.flags(), *flags
        )
        with contextlib.ExitStack() as stack:
            stack.push(self.program)
            self.program.until("pilothouse is ready")
            config = yaml.safe_load((directory / ".pilothouse" / "kubeconfig").read_text())
            self.port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
            self.admin_token: str = config["users"][0]["user"]["token"]
            self._samples = directory / "samples.jsonl"
            self._samples.touch()
            self._probe = Program(
                directory,
                "livez-probe",
                [
                    sys.executable,
                    str(Path(__file__).with_name("livez_probe.py")),
                    str(self.port),
                    str(self.program.process.pid),
                    str(self._samples),
                ],
                environment=environment(directory),
            )
            stack.push(self._probe)
            self._read = 0
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        self._wait_for_samples(3)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    # For attackers

    def connect(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """A new connection after its handshake. The server's certificate is not verified."""

        raw = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return (context or insecure_context()).wrap_socket(raw, server_hostname="localhost")

    def request(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        *,
        token: str = "",
        headers: Mapping[str, str] | None = None,
        seconds: float = 30.0,
    ) -> Answer:
        """Send one request over a new connection; anonymous without a token."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=seconds, context=insecure_context())
        with contextlib.closing(connection):
            login = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, body, {**login, **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, answer.read())

    def send_requests(self, requests: Iterable[tuple[str, str, Mapping[str, str]]], *, token: str = "") -> list[Answer]:
        """Send requests without bodies (method, path, headers) in sequence over one connection."""
        login = {"Authorization": f"Bearer {token}"} if token else {}
        answers = []
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=insecure_context())
        with contextlib.closing(connection):
            for method, path, headers in requests:
                connection.request(method, path, headers={**login, **headers})
                answer = connection.getresponse()
                answers.append(Answer(answer.status, answer.read()))
        return answers

    def as_user(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """Send a request as ``USER``; a body that is not bytes is sent as JSON."""
        return self._as(USER_TOKEN, method, path, body, content_type)

    def as_admin(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """Send a request as administrator: to prepare an attack and check its effects."""
        return self._as(self.admin_token, method, path, body, content_type)

    def _as(self, token: str, method: str, path: str, body: Any, content_type: str) -> Answer:
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {"Content-Type": content_type} if body is not None else {}
        return self.request(method, path, body, token=token, headers=headers)

    # What must hold

    @contextlib.contextmanager
    def bounded(self) -> Iterator[None]:
        """Hold, over the block and until the probe has been answered after it: ``/livez`` is quick, memory grows by
        little, no request fails with a traceback, and the process lives. Raises ``Slow`` where only the first does not
        hold."""
        before = self._wait_for_samples(1)
        logged = len(self.program.log)
        began, resident = before[-1].at, before[-1].resident
        yield
        samples = self._wait_for_samples(3)  # one with a new connection among them
        assert self.program.code is None, f"the plane ended with {self.program.code}:\n{self.program.log[-4000:]}"
        failures = [sample.failure for sample in samples if sample.failure]
        assert not failures, f"/livez failed: {failures[:3]}"
        slowest = max(max(sample.kept, sample.fresh) for sample in samples)
        grown = max(sample.resident for sample in samples) - resident
        print(
            f"{len(samples)} probes in {samples[-1].at - began:.1f} s, slowest {slowest:.3f} s, {grown / 2**20:.1f} MB"
        )
        assert grown < GROWTH_BYTES, f"memory grew by {grown / 2**20:.0f} MB"
        printed = self.program.log[logged:]
        assert "Traceback" not in printed, printed[-4000:]
        if slowest >= LIVEZ_SECONDS:
            raise Slow(f"/livez took {slowest:.3f} s")

    def _wait_for_samples(self, count: int) -> list[Sample]:
        """All samples of the probe since the last call. Waits for ``count`` new ones."""
        now, deadline = time.monotonic(), time.monotonic() + _NO_ANSWER_SECONDS
        while True:
            # The last line may not be whole yet.
            lines = self._samples.read_bytes()[self._read :].split(b"\n")[:-1]
            samples = [msgspec.json.decode(line, type=Sample) for line in lines]
            # ``at`` is the beginning of a measurement.
            if sum(sample.at >= now for sample in samples) >= count:
                self._read += sum(len(line) + 1 for line in lines)
                return samples
            assert self.program.code is None, f"the plane ended:\n{self.program.log[-4000:]}"
            assert self._probe.code is None, f"the probe ended:\n{self._probe.log[-4000:]}"
            assert time.monotonic() < deadline, f"/livez was not answered within {_NO_ANSWER_SECONDS} s"
            time.sleep(0.02)
