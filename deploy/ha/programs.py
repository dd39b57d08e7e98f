"""What a highly available cluster consists of: each program with its flags, once for local processes and for compose.

``Layout`` says where things are; ``programs`` is the declaration. Standard library only, so that it runs in any image.
"""

import csv
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ETCD = ("etcd-1", "etcd-2", "etcd-3")
API_SERVERS = ("apiserver-1", "apiserver-2")
MANAGERS = ("manager-1", "manager-2")
SCHEDULERS = ("scheduler-1", "scheduler-2")
NODES = "nodes"
BALANCER = "kubernetes"
"""The one address of the API; certificates of API servers are for this name, too."""
ADMIN = "admin"
USERS = {
    **dict.fromkeys(MANAGERS, "system:kube-controller-manager"),
    **dict.fromkeys(SCHEDULERS, "system:kube-scheduler"),
}
TOKENS = "tokens.csv"


@dataclass(frozen=True)
class Program:
    """One process. The first word of its command is ``etcd``, ``pilothouse`` or ``balancer.py``."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """Where things are."""

    listen: str
    """The address to listen on."""
    port: Callable[[str, str], int]
    """The port that a program listens on: (name, ``client`` | ``peer`` | ``https``)."""
    reach: Callable[[str, str, str], str]
    """HOST:PORT at which one program reaches another: (from, to, port)."""
    keys: str
    """The directory that the API servers share: certificates, keys and tokens."""
    data: Callable[[str], str]
    """The directory of a program's own."""

    def url(self, scheme: str, caller: str, to: str, port: str) -> str:
        """At which one program reaches another."""
        return f"{scheme}://{self.reach(caller, to, port)}"

    def listens(self, scheme: str, name: str, port: str) -> str:
        """Where a program listens."""
        return f"{scheme}://{self.listen}:{self.port(name, port)}"

    def kubeconfig(self, name: str) -> str:
        """The kubeconfig of a program, or of the administrator."""
        return f"{self.keys}/{name}.kubeconfig"


def programs(at: Layout) -> list[Program]:
    """All of them, in the order in which they are started."""
    return [
        *(_etcd(at, name) for name in ETCD),
        *(_api_server(at, number) for number in range(len(API_SERVERS))),
        _balancer(at),
        *(_manager(at, name) for name in MANAGERS),
        *(_scheduler(at, name) for name in SCHEDULERS),
        Program(NODES, ("pilothouse", "nodes", f"--kubeconfig={at.kubeconfig(ADMIN)}", "--nodes=3", "--storage")),
    ]


def _etcd(at: Layout, name: str) -> Program:
    members = ",".join(f"{each}={at.url('http', '', each, 'peer')}" for each in ETCD)
    return Program(
        name,
        (
            "etcd",
            f"--name={name}",
            f"--data-dir={at.data(name)}",
            f"--listen-client-urls={at.listens('http', name, 'client')}",
            f"--advertise-client-urls={at.url('http', '', name, 'client')}",
            f"--listen-peer-urls={at.listens('http', name, 'peer')}",
            f"--initial-advertise-peer-urls={at.url('http', '', name, 'peer')}",
            f"--initial-cluster={members}",
            "--initial-cluster-token=pilothouse",
            "--initial-cluster-state=new",
            "--log-level=warn",
        ),
    )


def _api_server(at: Layout, number: int) -> Program:
    # Each begins with another member, so that one that fails is not the one of both.
    name, members = API_SERVERS[number], ETCD[number:] + ETCD[:number]
    return Program(
        name,
        (
            "pilothouse",
            "apiserver",
            f"--bind-address={at.listen}",
            f"--port={at.port(name, 'https')}",
            "--etcd-servers=" + ",".join(at.url("http", name, each, "client") for each in members),
            f"--data-dir={at.keys}",
            f"--token-auth-file={at.keys}/{TOKENS}",
            "--authorization-mode=RBAC",
            f"--kubeconfig={at.keys}/{name}.kubeconfig",
        ),
    )


def _balancer(at: Layout) -> Program:
    backends = ",".join(at.reach(BALANCER, name, "https") for name in API_SERVERS)
    return Program(
        BALANCER, ("balancer.py", f"--listen={at.listen}:{at.port(BALANCER, 'https')}", f"--backends={backends}")
    )


def _manager(at: Layout, name: str) -> Program:
    kubeconfig = at.kubeconfig(name)
    return Program(
        name,
        (
            "pilothouse",
            "manager",
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={at.listen}",
            f"--secure-port={at.port(name, 'https')}",
            "--leader-elect=true",
            "--use-service-account-credentials=true",
            f"--root-ca-file={at.keys}/ca.crt",
            f"--service-account-private-key-file={at.keys}/service-account.key",
            f"--cluster-signing-cert-file={at.keys}/ca.crt",
            f"--cluster-signing-key-file={at.keys}/ca.key",
        ),
    )


def _scheduler(at: Layout, name: str) -> Program:
    return Program(name, ("pilothouse", "scheduler", f"--kubeconfig={at.kubeconfig(name)}", "--leader-elect=true"))


def prepare(at: Layout, directory: Path) -> None:
    """Make the tokens, and the kubeconfigs that have them, unless they are there. ``directory`` is ``at.keys`` as this
    process sees it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    tokens = directory / TOKENS
    if not tokens.exists():
        rows = [(secrets.token_urlsafe(32), user, user, "") for user in dict.fromkeys(USERS.values())]
        if not (directory / "admin.token").exists():  # an API server may have been here before
            _write(directory / "admin.token", secrets.token_urlsafe(32))
        with open(tokens.with_suffix(".new"), "w", newline="", opener=_private) as file:
            csv.writer(file).writerows(rows)
        tokens.with_suffix(".new").replace(tokens)
    with tokens.open(newline="") as file:
        by_user = {row[1]: row[0] for row in csv.reader(file)}
    for name in (*USERS, ADMIN):
        token = by_user[USERS[name]] if name in USERS else (directory / "admin.token").read_text()
        caller = name if name in USERS else NODES
        cluster = {
            "server": at.url("https", caller, BALANCER, "https"),
            "certificate-authority": f"{at.keys}/ca.crt",
        }
        _write(directory / f"{name}.kubeconfig", json.dumps(kubeconfig(name, cluster, token), indent=2))


def kubeconfig(name: str, cluster: dict[str, str], token: str) -> dict[str, object]:
    """A kubeconfig; JSON is YAML."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "ha", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "ha", "context": {"cluster": "ha", "user": name}}],
        "current-context": "ha",
    }


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.new")
    with open(draft, "w", opener=_private) as file:
        file.write(text)
    draft.replace(path)
