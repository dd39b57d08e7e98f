"""A real etcd for tests, without an API server: one for each test process, with a prefix for each test."""

import atexit
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.programs import free_port

# ``preexec_fn`` needs a fork without an immediate exec, which gRPC does not survive. So a small program sets
# PR_SET_PDEATHSIG (Linux) for itself and executes etcd.
_DIE_WITH_PARENT = (
    (sys.executable, "-SEc", "import ctypes,os,sys; ctypes.CDLL(None).prctl(1,9); os.execv(sys.argv[1],sys.argv[1:])")
    if sys.platform == "linux"
    else ()
)


def etcd_command(*flags: str) -> list[str]:
    """The command line of etcd in tests."""
    return [*_DIE_WITH_PARENT, str(Path(os.environ["KUBEBUILDER_ASSETS"]) / "etcd"), *flags]


class Etcd:
    """An etcd with one member."""

    def __init__(self, *flags: str, scheme: str = "http", ca: Path | None = None) -> None:
        """``ca`` is a directory with ca.crt, client.crt and client.key, for health checks over TLS."""
        self.scheme = scheme
        self._ca = ca
        self.directory = Path(tempfile.mkdtemp(prefix="pilothouse-etcd-"))
        self.port = 0
        self.flags = flags
        self._names = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    @property
    def url(self) -> str:
        """The value of ``--etcd-servers``."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id, while it runs."""
        assert self._process is not None
        return self._process.pid

    def root(self) -> str:
        """A new, unused prefix."""
        return f"/test-{next(self._names)}"

    def start(self) -> "Etcd":
        """Start it, on its previous port if any, and wait until it responds."""
        self.port = self.port or free_port()
        peer = f"http://127.0.0.1:{free_port()}"
        log = (self.directory / "log").open("ab")
        self._process = subprocess.Popen(
            etcd_command(
                f"--data-dir={self.directory / 'data'}",
                f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync=true",
                "--log-level=warn",
                *self.flags,
            ),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        log.close()
        deadline = time.monotonic() + 20
        while not self._is_ready():
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, "etcd does not answer"
            time.sleep(0.02)
        return self

    def _is_ready(self) -> bool:
        import grpc  # an extra

        from pilothouse.storage.etcd import messages

        target = f"127.0.0.1:{self.port}"
        if self._ca is None:
            channel = grpc.insecure_channel(target)
        else:
            files = [(self._ca / name).read_bytes() for name in ("ca.crt", "client.key", "client.crt")]
            channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(*files))
        with channel:
            get_range = channel.unary_unary(
                "/etcdserverpb.KV/Range",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=messages.RangeResponse.FromString,
            )
            try:
                get_range(messages.RangeRequest(key=b"a"), timeout=1)
            except grpc.RpcError:
                return False
        return True

    def kill(self) -> None:
        """Send SIGKILL; the data directory is kept."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop it (SIGSTOP) within a ``with`` block: it accepts connections and sends no responses."""
        assert self._process is not None, "etcd is not running"
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill it and delete its data."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@cache
def shared_etcd() -> Etcd:
    """The etcd of all tests in this process."""
    return Etcd().start()
