"""The cluster of the catalogue's scenarios: one ``pilothouse up``, a client, and nodes that scenarios can reserve."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.clients.test_kubectl import KUBECTL
from tests.programs import pilothouse
from tests.real_cluster import GOGC

from pilothouse.client import Client
from pilothouse.client.client import default_user_agent
from pilothouse.client.connect import connect
from pilothouse.client.remote import RemoteTransport
from pilothouse.env import Env
from pilothouse.machinery.api_resources import Discovery
from pilothouse.why import Explanation, Reference, ServerEvidence, explain

T = TypeVar("T")

SECONDS = 60.0
_COMMON = 3
"""Nodes for the pods of all scenarios."""
_FLAGS = ("--pod-start-delay=50ms", "--pod-stop-delay=50ms", "--node-cpu=4", "--pod-events=true")
_LIFECYCLE = "node-lifecycle-controller"
_BESIDE = ("--leader-elect=false", "--secure-port=0", "--node-monitor-grace-period=14s")
_KUBECTLS = threading.BoundedSemaphore(3)


class ScenarioCluster:
    """One cluster for all scenarios. Its methods are thread-safe."""

    def __init__(self, directory: Path, spare: int, kubeconfig: Path | None = None) -> None:
        self.directory = directory
        self.kubeconfig = kubeconfig or directory / ".pilothouse" / "kubeconfig"
        self._spare = [f"node-{number}" for number in range(_COMMON, _COMMON + spare)]
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._env = Env()
        self._transport = self.run(self._connected())
        self.client = Client(self._transport, self._env, qps=0, user_agent=default_user_agent("catalogue"))
        self.discovery: Discovery = self.run(self.client.discover())
        # Other pods must not run on reserved nodes.
        if self._spare:
            self.kubectl("taint", "nodes", *self._spare, "scenario=own:NoSchedule")

    async def _connected(self) -> RemoteTransport:
        return connect(self._env, kubeconfig=str(self.kubeconfig))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the client's loop, and return its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(SECONDS)
        except FutureTimeout:
            future.cancel()
            raise AssertionError(f"no answer within {SECONDS} s") from None

    def kubectl(self, *words: str, stdin: str | None = None, fails: bool = False) -> str:
        """Run kubectl; returns its output, or the error that it must exit with."""
        assert KUBECTL is not None
        with _KUBECTLS:
            done = subprocess.run(
                [KUBECTL, f"--kubeconfig={self.kubeconfig}", *words],
                input=stdin,
                capture_output=True,
                text=True,
                env={"PATH": os.environ["PATH"], "HOME": str(self.directory), "GOGC": GOGC},
                timeout=SECONDS,
                check=False,
            )
        assert (done.returncode != 0) == fails, f"kubectl {words}: {done.stdout}{done.stderr}"
        return done.stderr if fails else done.stdout

    @property
    def why_flags(self) -> Sequence[str]:
        """Additional flags of ``pilothouse why``."""
        return ()

    async def explained(self, reference: Reference) -> Explanation:
        """The explanation of ``pilothouse why``."""
        return await explain(ServerEvidence(self.client, self.discovery), reference)

    def take_nodes(self, count: int) -> list[str]:
        """Reserve nodes."""
        with self._lock:
            assert len(self._spare) >= count, "no node is left: raise SPARE_NODES in conftest.py"
            nodes, self._spare = self._spare[:count], self._spare[count:]
        return nodes

    def close(self) -> None:
        """Close the connections, and stop the thread."""
        self.run(self._transport.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


@contextmanager
def started(spare_nodes: int) -> Iterator[ScenarioCluster]:
    """Start the cluster. A second manager runs the node lifecycle controller with a short grace period: in ``up`` an
    unreachable node is detected after 50 s."""
    directory = Path(tempfile.mkdtemp(prefix="catalogue-"))
    flags = (*_FLAGS, f"--nodes={_COMMON + spare_nodes}", f"--controllers=*,-{_LIFECYCLE}")
    try:
        with pilothouse(directory, "up", "--port=0", *flags) as up:
            up.until("pilothouse is ready")
            cluster = ScenarioCluster(directory, spare_nodes)
            beside = (f"--kubeconfig={cluster.kubeconfig}", f"--controllers={_LIFECYCLE}", *_BESIDE)
            with pilothouse(directory, "manager", *beside) as manager:
                yield cluster
            cluster.close()
        for program in (manager, up):
            assert "Traceback" not in program.log, program.log
    finally:
        shutil.rmtree(directory, ignore_errors=True)
