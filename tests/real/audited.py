"""kube-apiserver with an audit log, for tests of rights and of the users of requests.

The audit log of kube-apiserver has, for each request: who, as what agent, verb, resource, the answer, and whether the
authorizer allowed it. An admission plug-in's refusal is a 403 as well, but not the authorizer's.
"""

import contextlib
import functools
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from tests.programs import until
from tests.real_cluster import RealCluster, RequestFailed, running

from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects

MANAGER = "system:kube-controller-manager"
SERVICE_ACCOUNT = "system:serviceaccount:kube-system:"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request. ``user`` is a controller's client name, or the manager's own."""

    user: str
    agent: str
    verb: str
    group: str
    resource: str
    """With its subresource."""
    namespace: str
    name: str
    path: str
    code: int
    forbidden: bool
    """Whether the authorizer denied it."""


class Audit:
    """The requests so far."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> list[Asked]:
        """All requests of the manager and its controllers, in the order of their responses."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        # A watch is written down when it begins and when it ends.
        entries = {entry["auditID"]: entry for entry in map(json.loads, lines) if is_managers(entry)}
        return [_asked(entry) for entry in entries.values()]


def is_managers(entry: Mapping[str, Any]) -> bool:
    """Whether the user is the manager or one of its controllers."""
    user: str = entry["user"]["username"]
    return user == MANAGER or user.startswith(SERVICE_ACCOUNT)


def _asked(entry: Mapping[str, Any]) -> Asked:
    ref = entry.get("objectRef", {})
    subresource = ref.get("subresource", "")
    return Asked(
        user=entry["user"]["username"].removeprefix(SERVICE_ACCOUNT),
        agent=entry.get("userAgent", "").rpartition("/")[2],
        verb=entry["verb"],
        group=ref.get("apiGroup", ""),
        resource=ref.get("resource", "") + (f"/{subresource}" if subresource else ""),
        namespace=ref.get("namespace", ""),
        name=ref.get("name", ""),
        path=entry["requestURI"],
        code=entry.get("responseStatus", {}).get("code", 0),
        forbidden=entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid",
    )


@contextlib.contextmanager
def audited(directory: Path) -> Iterator[tuple[RealCluster, Audit]]:
    """A separate API server with exactly v1.36's bootstrap roles and bindings."""
    policy, log = directory / "policy.yaml", directory / "audit.log"
    policy.write_text(_POLICY)
    with running([f"--audit-policy-file={policy}", f"--audit-log-path={log}"]) as cluster:
        for namespace in ("kube-system", "kube-public"):
            until(functools.partial(_exists, cluster, f"/api/v1/namespaces/{namespace}"), f"there is {namespace}")
        only_v1_36(cluster)
        yield cluster, Audit(log)


def only_v1_36(cluster: RealCluster) -> None:
    """Replace the bootstrap roles and bindings by v1.36's."""
    wanted: dict[str, dict[str, Any]] = {}
    for resource, document in bootstrap_objects():
        namespace = document["metadata"].get("namespace")
        base = f"{_RBAC}/{f'namespaces/{namespace}/' if namespace else ''}{resource}"
        wanted[f"{base}/{document['metadata']['name']}"] = document
    for resource in ("clusterrolebindings", "rolebindings", "clusterroles", "roles"):
        for item in cluster.request("GET", f"{_RBAC}/{resource}")["items"]:
            namespace = item["metadata"].get("namespace")
            base = f"{_RBAC}/{f'namespaces/{namespace}/' if namespace else ''}{resource}"
            cluster.request("DELETE", f"{base}/{item['metadata']['name']}")
    for path, document in wanted.items():
        cluster.request("POST", path.rpartition("/")[0], document)
    # The authorizer has its own caches, which are updated a moment later.
    time.sleep(0.5)


def _exists(cluster: RealCluster, path: str) -> bool:
    try:
        cluster.request("GET", path)
    except RequestFailed:
        return False
    return True
