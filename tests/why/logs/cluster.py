"""A real kube-apiserver with an audit log, and pilothouse's manager, scheduler and nodes with decision logs, for
scenarios that are explained from logs."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.programs import kube_controller_manager, pilothouse, until
from tests.real_cluster import RealCluster, RequestFailed, running
from tests.why.catalogue.cluster import ScenarioCluster

from pilothouse.env import Env
from pilothouse.why import Explanation, Reference, ServerEvidence, explain
from pilothouse.why.logs import AUDIT, DECISIONS, LogEvidence, LogIndex, LogSource

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources: [{group: "", resources: [events]}, {group: coordination.k8s.io}]
- level: Metadata
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
"""
_NODES = ("--pod-start-delay=50ms", "--pod-stop-delay=50ms", "--node-cpu=4", "--pod-events=true")
_MANAGER = (
    "--leader-elect=false",
    "--secure-port=0",
    "--node-monitor-grace-period=14s",
    # Scenarios run concurrently: a throttled controller would sync too late for some of them.
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
)
_COMMON = 3
_MASTERS = ("system:masters",)


class LoggedCluster(ScenarioCluster):
    """A cluster without history in the API server: explanations use the logs in ``directory``."""

    def __init__(self, directory: Path, spare: int, kubeconfig: Path, *, decisions: bool, audit: bool) -> None:
        self.sources = [LogSource(DECISIONS, str(directory / "decisions-*.log"))] if decisions else []
        self.sources += [LogSource(AUDIT, str(directory / "audit.log"))] if audit else []
        super().__init__(directory, spare, kubeconfig)

    @property
    def why_flags(self) -> Sequence[str]:
        """The flags for the logs."""
        return [f"--{kind.replace(' ', '-')}={path}" for kind, path in self.sources]

    async def explained(self, reference: Reference) -> Explanation:
        """The explanation from the logs, once all lines are written."""
        await asyncio.sleep(0.5)
        index = LogIndex(Env())
        try:
            await index.read(self.sources, seconds=30)
            return await explain(LogEvidence(ServerEvidence(self.client, self.discovery), index), reference)
        finally:
            index.close()


@contextmanager
def real_cluster_with_audit(directory: Path, policy: str = POLICY) -> Iterator[RealCluster]:
    """The API server alone."""
    (directory / "policy.yaml").write_text(policy)
    flags = [f"--audit-policy-file={directory}/policy.yaml", f"--audit-log-path={directory}/audit.log"]
    with running(flags) as cluster:
        until(lambda: _has_namespaces(cluster), "kube-system exists")
        yield cluster


def _has_namespaces(cluster: RealCluster) -> bool:
    try:
        cluster.request("GET", "/api/v1/namespaces/kube-system")
    except RequestFailed:
        return False
    return True


@contextmanager
def logged_cluster(spare_nodes: int) -> Iterator[LoggedCluster]:
    """A cluster with an audit log, and decision logs of all programs."""
    directory = Path(tempfile.mkdtemp(prefix="why-logs-"))
    try:
        with real_cluster_with_audit(directory) as cluster, ExitStack() as programs:
            as_manager = cluster.user("system:kube-controller-manager", groups=_MASTERS)
            as_scheduler = cluster.user("system:kube-scheduler", groups=_MASTERS)
            for program, kubeconfig, flags in (
                ("nodes", cluster.kubeconfig, (*_NODES, f"--nodes={_COMMON + spare_nodes}")),
                ("scheduler", as_scheduler, ()),
                ("manager", as_manager, _MANAGER),
            ):
                log = f"--decision-log={directory}/decisions-{program}.log"
                programs.enter_context(pilothouse(directory, program, f"--kubeconfig={kubeconfig}", log, *flags))
            nodes = "/api/v1/nodes"
            until(lambda: len(cluster.request("GET", nodes)["items"]) == _COMMON + spare_nodes, "all nodes exist")
            admin = cluster.user("kubernetes-admin", groups=_MASTERS)
            logged = LoggedCluster(directory, spare_nodes, admin, decisions=True, audit=True)
            try:
                yield logged
            finally:
                logged.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def kube_controller_manager_cluster(metadata: str) -> Iterator[LoggedCluster]:
    """A cluster with kube-controller-manager, which has no decision log. The audit log lacks bodies for the namespace
    ``metadata``."""
    policy = POLICY.replace("rules:\n", f"rules:\n- {{level: Metadata, namespaces: [{metadata}]}}\n")
    directory = Path(tempfile.mkdtemp(prefix="why-logs-"))
    try:
        with real_cluster_with_audit(directory, policy) as cluster, ExitStack() as programs:
            as_manager = cluster.user("system:kube-controller-manager", groups=_MASTERS)
            as_scheduler = cluster.user("system:kube-scheduler", groups=_MASTERS)
            nodes = f"--kubeconfig={cluster.kubeconfig}"
            programs.enter_context(pilothouse(directory, "nodes", nodes, *_NODES, f"--nodes={_COMMON}"))
            programs.enter_context(pilothouse(directory, "scheduler", f"--kubeconfig={as_scheduler}"))
            flags = (f"--kubeconfig={as_manager}", "--controllers=*", "--leader-elect=false")
            programs.enter_context(kube_controller_manager(cluster, directory, *flags))
            until(lambda: len(cluster.request("GET", "/api/v1/nodes")["items"]) == _COMMON, "all nodes exist")
            admin = cluster.user("kubernetes-admin", groups=_MASTERS)
            logged = LoggedCluster(directory, 0, admin, decisions=False, audit=True)
            try:
                yield logged
            finally:
                logged.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
