"""The two clusters that a kubectl session runs on: the real kube-apiserver v1.20.2 with etcd, and pilothouse.

In front of both run the same programs: Go's kube-controller-manager and kube-scheduler (v1.20) and three of our
simulated nodes. ``running_sides`` starts everything; ``script`` has the commands, ``comparison`` compares the answers.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from tests.connections import Connections
from tests.programs import Program, environment, free_port, pilothouse, until
from tests.real_cluster import ADMIN_TOKEN, RealCluster

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
# With it the real server gives pods the token volume that every release since v1.22 gives them.
GATES = "--feature-gates=BoundServiceAccountTokenVolume=true"
NODES = 3


def missing_programs() -> str:
    """Why there can be no session here, or ""."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not assets:
        return "KUBEBUILDER_ASSETS is not set"
    absent = [name for name in PROGRAMS if shutil.which(name, path=assets) is None]
    return f"KUBEBUILDER_ASSETS has no {' and no '.join(absent)}" if absent else ""


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    code: int
    out: str
    err: str


class Side:
    """One cluster accessed as administrator, with a working directory for commands."""

    def __init__(self, name: str, directory: Path, server: str, authority: Path) -> None:
        self.name = name
        self.directory = directory
        self._port = int(server.rpartition(":")[2])
        self._connections = Connections(authority, seconds=30.0)
        self._assets = Path(os.environ["KUBEBUILDER_ASSETS"])
        self.kubeconfig = directory / "admin.kubeconfig"
        cluster = {"server": server, "certificate-authority": str(authority)}
        context = {"cluster": "session", "user": "admin", "namespace": "shop"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "session", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
            "contexts": [{"name": "session", "context": context}],
            "current-context": "session",
        }
        self.kubeconfig.write_text(json.dumps(config))
        self.kubeconfig.chmod(0o600)
        (directory / "tmp").mkdir()

    def command(self, words: tuple[str, ...]) -> list[str]:
        return [str(self._assets / "kubectl"), *words]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of kubectl: its home is the directory, so that caches of the other side are not used."""
        own = {"KUBECONFIG": str(self.kubeconfig), "TMPDIR": str(self.directory / "tmp"), "TZ": "UTC"}
        return environment(self.directory, **own, **(more or {}))

    def kubectl(self, words: tuple[str, ...], *, stdin: str = "", more: Mapping[str, str] | None = None) -> Answer:
        """Run kubectl until it exits."""
        done = subprocess.run(
            self.command(words),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=self.directory,
            env=self.environment(more),
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def read(self, path: str) -> Any:
        """The object at this path, or None. Faster than kubectl, for polling."""
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        status, text = self._connections.request(self._port, "GET", path, headers=headers)
        assert status in {200, 404}, f"{self.name}: GET {path}: {status} {text}"
        return json.loads(text) if status == 200 else None

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()


@contextlib.contextmanager
def running_sides(directory: Path, *, with_real: bool) -> Iterator[list[Side]]:
    """The sides of pilothouse and of kube-apiserver, with all programs running and three nodes ready."""
    with contextlib.ExitStack() as running:
        server = _pilothouse_server(directory / "pilothouse", running)
        cluster = RealCluster([GATES], service_accounts=True)
        running.callback(cluster.stop)
        sides = []
        if with_real:
            cluster.start()
            (directory / "real").mkdir()
            sides.append(Side("real", directory / "real", cluster.server, cluster.ca_file))
        sides.insert(0, _pilothouse_side(directory / "pilothouse", server))
        for side in sides:
            running.callback(side.close)
            for program in _programs(side, cluster):
                running.callback(program.kill)
        for side in sides:
            until(partial(_ready, side), f"the {side.name} side is ready", 60)
        yield sides


def _pilothouse_server(directory: Path, running: contextlib.ExitStack) -> Program:
    directory.mkdir()
    tokens = directory / "tokens.csv"
    tokens.write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
    server = pilothouse(
        directory,
        "up",
        "--no-manager",
        "--no-scheduler",
        "--nodes=0",
        "--port=0",
        "--authorization-mode=RBAC",
        # It is enabled where our manager creates the accounts; here Go's does.
        "--enable-admission-plugins=ServiceAccount",
        f"--token-auth-file={tokens}",
        f"--kubeconfig={directory}/plane.kubeconfig",
    )
    running.callback(server.kill)
    return server


def _pilothouse_side(directory: Path, server: Program) -> Side:
    server.until("pilothouse is ready")
    cluster = yaml.safe_load((directory / "plane.kubeconfig").read_text())["clusters"][0]["cluster"]
    authority = directory / "ca.crt"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return Side("pilothouse", directory, cluster["server"], authority)


def _programs(side: Side, keys: RealCluster) -> Iterator[Program]:
    """Start the programs of a side. The managers of both sides sign with the same keys."""
    yield _go(
        side,
        "kube-controller-manager",
        GATES,
        f"--service-account-private-key-file={keys.service_account_key_file}",
        f"--root-ca-file={keys.ca_file}",
        f"--cluster-signing-cert-file={keys.ca_file}",
        f"--cluster-signing-key-file={keys.ca_key_file}",
    )
    # v1.20 would watch disruption budgets in a version that v1.25 removed, and wait for it.
    yield _go(side, "kube-scheduler", "--feature-gates=PodDisruptionBudget=false")
    words = (f"--kubeconfig={side.kubeconfig}", f"--nodes={NODES}", "--pod-start-delay=50ms", "--pod-stop-delay=50ms")
    yield pilothouse(side.directory, "nodes", *words)


def _go(side: Side, name: str, *flags: str) -> Program:
    command = [
        str(Path(os.environ["KUBEBUILDER_ASSETS"]) / name),
        f"--kubeconfig={side.kubeconfig}",
        f"--authentication-kubeconfig={side.kubeconfig}",
        f"--authorization-kubeconfig={side.kubeconfig}",
        "--leader-elect-resource-lock=leases",
        "--port=0",
        f"--secure-port={free_port()}",
        f"--cert-dir={side.directory}",
        *flags,
    ]
    return Program(side.directory, name, command, environment=environment(side.directory))


def _ready(side: Side) -> bool:
    """Whether all nodes are untainted and the default ServiceAccount has its token Secret."""
    nodes = side.read("/api/v1/nodes")["items"]
    open_ones = [node for node in nodes if not node["spec"].get("taints")]
    account = side.read("/api/v1/namespaces/default/serviceaccounts/default")
    return len(open_ones) == NODES and account is not None and "secrets" in account
