"""A real etcd for tests, without an API server: one for each test process, whose tests have a root of their own."""

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

# gRPC does not survive a fork that is not followed by an exec at once, as ``preexec_fn`` needs it: so what is started
# says itself that it ends with its parent (PR_SET_PDEATHSIG, Linux), and becomes etcd.
_ENDS_WITH_PARENT = (
    (sys.executable, "-SEc", "import ctypes,os,sys; ctypes.CDLL(None).prctl(1,9); os.execv(sys.argv[1],sys.argv[1:])")
    if sys.platform == "linux"
    else ()
)


def etcd_command(*flags: str) -> list[str]:
    """How etcd is started by a test."""
    return [*_ENDS_WITH_PARENT, str(Path(os.environ["KUBEBUILDER_ASSETS"]) / "etcd"), *flags]


class Etcd:
    """A running etcd of one member."""

    def __init__(self, *flags: str, scheme: str = "http", ca: Path | None = None) -> None:
        """``ca`` is a directory with ca.crt, client.crt and client.key, to ask it over TLS."""
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
        """For ``--etcd-servers``."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def root(self) -> str:
        """A prefix that nothing else uses."""
        return f"/test-{next(self._names)}"

    def start(self) -> "Etcd":
        """Start it, on the port that it had before, and wait until it answers."""
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
        while not self._answers():
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, "etcd does not answer"
            time.sleep(0.02)
        return self

    def _answers(self) -> bool:
        import grpc  # an extra

        from pilothouse.storage.etcd import messages

        target = f"127.0.0.1:{self.port}"
        if self._ca is None:
            opened = grpc.insecure_channel(target)
        else:
            files = [(self._ca / name).read_bytes() for name in ("ca.crt", "client.key", "client.crt")]
            opened = grpc.secure_channel(target, grpc.ssl_channel_credentials(*files))
        with opened as channel:
            ask = channel.unary_unary(
                "/etcdserverpb.KV/Range",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=messages.RangeResponse.FromString,
            )
            try:
                ask(messages.RangeRequest(key=b"a"), timeout=1)
            except grpc.RpcError:
                return False
        return True

    def kill(self) -> None:
        """End it at once; the data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """For the length of a ``with`` block it takes connections and answers nothing."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it for good."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@cache
def shared_etcd() -> Etcd:
    """One for all tests of this process."""
    return Etcd().start()
