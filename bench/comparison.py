"""``python -m bench.comparison``: pilothouse beside envtest's programs and kmock; what docs/comparison.md shows.

Each is started, asked the same questions over HTTP ("are pods created for a ReplicaSet?"), and measured: time and CPU
until the first list of namespaces, and memory. Programs in ``KUBEBUILDER_ASSETS`` are envtest's; kmock is installed
into a temporary environment by pip (``--without-kmock`` leaves it out). Every answer is of this run.
"""

import argparse
import base64
import contextlib
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.real_cluster import ADMIN_TOKEN, RealCluster, missing_programs

from bench.processes import cpu_seconds, pilothouse, resident_bytes, started, wait_for_line

KMOCK = "kmock==0.8"
ROUNDS = 3
_PATIENCE_SECONDS = 8.0
"""A namespace is deleted after five seconds, as upstream does (``namespaceDeletionGracePeriod``)."""
_KMOCK_PROGRAM = """
import asyncio, kmock
async def main():
    async with kmock.KubernetesEmulator(limit=None) as emulator, kmock.Server(emulator) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


class Server(NamedTuple):
    """One that runs."""

    url: str
    processes: Sequence[int]
    token: str = ""
    ca_file: str = ""

    def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """Status and document of a response; of a watch its first event."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.url.rstrip("/") + path, data, headers, method=method)
        context = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS, context=context) as response:
                text = response.readline() if "watch=" in path else response.read()
                return response.status, json.loads(text or b"{}")
        except urllib.error.HTTPError as error:
            with contextlib.suppress(ValueError):
                return error.code, json.loads(error.read())
            return error.code, {}

    def eventually(self, path: str, condition: Callable[[int, dict[str, Any]], bool]) -> bool:
        """Whether it becomes true while somebody waits for it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if condition(*self.ask("GET", path)):
                return True
            time.sleep(0.05)
        return False


# What runs


@contextlib.contextmanager
def pilothouse_up(directory: Path) -> Iterator[Server]:
    log = directory / "log"
    with started(
        pilothouse("up", "--port=0", f"--kubeconfig={directory / 'kubeconfig'}"), log, cwd=directory
    ) as process:
        wait_for_line(process, "is ready", log)
        config = yaml.safe_load((directory / "kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = directory / "ca.crt"
        authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        yield Server(cluster["server"], [process.pid], user["token"], str(authority))


@contextlib.contextmanager
def _envtest(_directory: Path) -> Iterator[Server]:
    cluster = RealCluster()
    try:
        cluster.start()
        yield Server(cluster.server, cluster.process_ids, ADMIN_TOKEN, str(cluster.ca_file))
    finally:
        cluster.stop()


def _kmock_in(environment: Path) -> Callable[[Path], contextlib.AbstractContextManager[Server]]:
    @contextlib.contextmanager
    def run(directory: Path) -> Iterator[Server]:
        command = [str(environment / "bin" / "python"), "-c", _KMOCK_PROGRAM]
        with started(command, directory / "log", cwd=directory) as process:
            assert process.stdout is not None
            yield Server(process.stdout.readline().strip(), [process.pid])

    return run


# What they are asked

_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
_SPEC = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}
_APPS, _CORE = "/apis/apps/v1/namespaces/default", "/api/v1/namespaces/default"
_SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}],
    },
}


def _workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {**_SPEC, **spec}}


def _map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def _defaults(server: Server) -> bool:
    _status, made = server.ask("POST", f"{_APPS}/deployments", _workload("Deployment", "defaults", paused=True))
    return bool(made.get("spec", {}).get("strategy", {}).get("type") == "RollingUpdate")


def _validation(server: Server) -> bool:
    return server.ask("POST", f"{_APPS}/deployments", _workload("Deployment", "invalid", replicas=-1))[0] == 422


def _conflicts(server: Server) -> bool:
    server.ask("POST", f"{_CORE}/configmaps", _map("conflict"))
    stale = _map("conflict", resourceVersion="1")
    return server.ask("PUT", f"{_CORE}/configmaps/conflict", stale | {"data": {"a": "b"}})[0] == 409


def _apply(server: Server) -> bool:
    path, content_type = f"{_CORE}/configmaps/applied?fieldManager=", "application/apply-patch+yaml"
    first, _made = server.ask("PATCH", f"{path}one", _map("applied") | {"data": {"a": "b"}}, content_type)
    second, _status = server.ask("PATCH", f"{path}two", _map("applied") | {"data": {"a": "c"}}, content_type)
    return (first, second) == (201, 409)


def _watches(server: Server) -> bool:
    server.ask("POST", f"{_CORE}/configmaps", _map("watched"))
    try:
        query = "watch=true&fieldSelector=metadata.name%3Dwatched"
        return server.ask("GET", f"{_CORE}/configmaps?{query}")[1].get("type") == "ADDED"
    except (TimeoutError, OSError, ValueError):
        return False


def _served(server: Server) -> bool:
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _DEFINITION)
    return server.eventually("/apis/example.com/v1/namespaces/default/things", lambda status, _list: status == 200)


def _schemas(server: Server) -> bool:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "wrong"}, "spec": {"n": "text"}}
    return server.ask("POST", "/apis/example.com/v1/namespaces/default/things", thing)[0] == 422


def _pods(server: Server) -> bool:
    server.ask("POST", f"{_APPS}/replicasets", _workload("ReplicaSet", "pods"))
    return server.eventually(
        f"{_CORE}/pods?labelSelector=a%3Db", lambda _status, found: len(found.get("items", ())) == 2
    )


def _running(server: Server) -> bool:
    return server.eventually(
        f"{_CORE}/pods?labelSelector=a%3Db",
        lambda _status, found: (
            [pod.get("status", {}).get("phase") for pod in found.get("items", ())] == ["Running"] * 2
        ),
    )


def _collected(server: Server) -> bool:
    _status, owner = server.ask("POST", f"{_CORE}/configmaps", _map("owner"))
    uid = owner.get("metadata", {}).get("uid", "")
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]
    server.ask("POST", f"{_CORE}/configmaps", _map("owned", ownerReferences=references))
    server.ask("DELETE", f"{_CORE}/configmaps/owner")
    return server.eventually(f"{_CORE}/configmaps/owned", lambda status, _found: status == 404)


def _namespaces(server: Server) -> bool:
    server.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}})
    server.ask("POST", "/api/v1/namespaces/gone/configmaps", _map("inside"))
    server.ask("DELETE", "/api/v1/namespaces/gone")
    inside = "/api/v1/namespaces/gone/configmaps/inside"
    return server.eventually(inside, lambda status, _found: status == 404) and server.eventually(
        "/api/v1/namespaces/gone", lambda status, _found: status == 404
    )


QUESTIONS: Mapping[str, Callable[[Server], bool]] = {
    "fills in defaults": _defaults,
    "rejects invalid objects": _validation,
    "rejects stale updates": _conflicts,
    "server-side apply, with conflicts": _apply,
    "watches": _watches,
    "serves custom resources of a definition": _served,
    "checks them against their schema": _schemas,
    "creates pods for a ReplicaSet": _pods,
    "pods become Running": _running,
    "deletes dependents of a deleted owner": _collected,
    "empties and removes a deleted namespace": _namespaces,
}
"""What is shown of each, in this order: a question may build on the one before."""


class Measured(NamedTuple):
    """What was found out about one of them."""

    seconds: float
    """From its start to the first list of namespaces."""
    cpu: float
    megabytes: float
    answers: Mapping[str, bool]


def measured(run: Callable[[Path], contextlib.AbstractContextManager[Server]], rounds: int = ROUNDS) -> Measured:
    """Start it several times; the last time it is asked all questions."""
    seconds, cpu, megabytes, answers = [], [], [], dict[str, bool]()
    for number in range(rounds):
        with tempfile.TemporaryDirectory(prefix="pilothouse-comparison-") as name:
            began = time.perf_counter()
            with run(Path(name)) as server:
                server.ask("GET", "/api/v1/namespaces")
                seconds.append(time.perf_counter() - began)
                cpu.append(sum(map(cpu_seconds, server.processes)))
                megabytes.append(sum(map(resident_bytes, server.processes)) / 1e6)
                if number == rounds - 1:
                    answers = {question: ask(server) for question, ask in QUESTIONS.items()}
    return Measured(statistics.median(seconds), statistics.median(cpu), statistics.median(megabytes), answers)


def table(found: Mapping[str, Measured]) -> str:
    """Markdown."""
    rows = [
        ["", *found],
        ["---", *["---"] * len(found)],
        ["start to first response, s", *(f"{each.seconds:.2f}" for each in found.values())],
        ["CPU until then, s", *(f"{each.cpu:.2f}" for each in found.values())],
        ["memory then, MB", *(f"{each.megabytes:.0f}" for each in found.values())],
        *(
            [question, *("yes" if each.answers[question] else "no" for each in found.values())]
            for question in QUESTIONS
        ),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.comparison", description=__doc__)
    parser.add_argument("--without-kmock", action="store_true", help="install nothing")
    arguments = parser.parse_args()
    found = {"pilothouse up": measured(pilothouse_up)}
    if missing := missing_programs():
        print(f"Without envtest's programs: {missing}", file=sys.stderr)
    else:
        found["envtest's kube-apiserver and etcd"] = measured(_envtest)
    if not arguments.without_kmock:
        with tempfile.TemporaryDirectory(prefix="pilothouse-kmock-") as name:
            subprocess.run([sys.executable, "-m", "venv", name], check=True)
            subprocess.run([f"{name}/bin/python", "-m", "pip", "install", "--quiet", KMOCK], check=True)
            found[KMOCK.replace("==", " ")] = measured(_kmock_in(Path(name)))
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
