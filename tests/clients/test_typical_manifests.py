"""Common manifests, ``samples/typical.yaml``, with kubectl: both kinds of apply, strict validation, and the resulting
objects.

The tests are steps of one scenario, in order. The manager runs separately from ``pilothouse up``, because the
autoscaler's sync period is one of its flags.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.clients.test_up import Terminal, start
from tests.programs import pilothouse, until

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")

MANIFEST = Path(__file__).parent / "samples" / "typical.yaml"
FLAGS = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--leader-elect=false",
    "--secure-port=0",
)
SERVER_FLAGS = ("--authorization-mode=RBAC", "--enable-admission-plugins=ServiceAccount")
NODES = 3
OBJECTS = 43
CRON_TAB = {
    "apiVersion": "typical.example.com/v1",
    "kind": "CronTab",
    "metadata": {"name": "mine"},
    "spec": {"cronSpec": "* * * * */5", "port": "http", "extra": {"any": ["thing", 1]}},
}


class NamespaceKubectl(Terminal):
    """kubectl in the namespace of the scenario."""

    namespace = "typical"

    def __call__(self, *words: str, stdin: Any = None) -> str:
        return super().__call__(f"--namespace={self.namespace}", *words, stdin=stdin)

    def get(self, *words: str) -> Any:
        return json.loads(self("get", *words, "-o", "json"))

    def apply(self, *flags: str) -> dict[str, str]:
        """The last output line of kubectl for each object."""
        lines = self("apply", "--validate=strict", *flags, "-f", str(MANIFEST)).splitlines()
        return dict(line.rsplit(" ", 1) for line in lines)

    def generations(self) -> dict[str, int]:
        result = self("get", "-f", str(MANIFEST), "-o", "json")
        return {
            f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["generation"]
            for item in json.loads(result)["items"]
            if "generation" in item["metadata"]
        }

    def conditions(self, *words: str) -> dict[str, tuple[str, str]]:
        return {
            condition["type"]: (condition["status"], condition["reason"])
            for condition in self.get(*words)["status"]["conditions"]
        }

    def wait_until_ready(self) -> None:
        for workload in ("deployment/web", "statefulset/db", "daemonset/agent"):
            self("rollout", "status", workload, "--timeout=25s")
        self("wait", "--for=condition=complete", "job/convert", "--timeout=20s")
        self("wait", "--for=condition=ready", "pod/debug", "--timeout=20s")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceKubectl]:
    directory = tmp_path_factory.mktemp("typical")
    with start(directory, f"--nodes={NODES}", "--no-manager", *SERVER_FLAGS) as up:
        up.until("is ready")
        with pilothouse(directory, "manager", "--kubeconfig=.pilothouse/kubeconfig", *FLAGS) as manager:
            manager.until("Starting controller")
            desk = NamespaceKubectl(directory)
            desk("create", "namespace", "typical")
            until(lambda: "/default" in desk("get", "serviceaccounts", "-o", "name"), "pods may be made there")
            yield desk
            assert manager.stop() == 0
            assert "Traceback" not in manager.log
        assert up.stop() == 0
        assert "Traceback" not in up.log


def test_all_manifests_are_applied_and_become_ready(desk: NamespaceKubectl) -> None:
    words = desk.apply()
    assert len(words) == OBJECTS
    assert set(words.values()) == {"created"}
    desk.wait_until_ready()


def test_pods_have_the_requested_spec(desk: NamespaceKubectl) -> None:
    pods = {item["metadata"]["name"]: item for item in desk.get("pods")["items"]}
    places: dict[str, set[str]] = {}
    for pod in pods.values():
        places.setdefault(pod["metadata"]["labels"].get("app", ""), set()).add(pod["spec"].get("nodeName", ""))
    assert len(places["web"]) == NODES, "spread over the nodes"
    assert len(places["agent"]) == NODES
    web = next(pod for pod in pods.values() if pod["metadata"]["labels"].get("app") == "web")
    assert web["spec"]["priority"] == 100000
    assert web["spec"]["preemptionPolicy"] == "Never"
    assert web["spec"]["imagePullSecrets"] == [{"name": "registry"}], "as its account has it"
    assert not [volume for volume in web["spec"]["volumes"] if volume["name"].startswith("kube-api-access")]
    assert [status["ready"] for status in web["status"]["initContainerStatuses"]] == [True, True]
    agent = next(pod for pod in pods.values() if pod["metadata"]["labels"].get("app") == "agent")
    assert agent["spec"]["priority"] == 2000001000
    [container] = agent["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "10m", "memory": "16Mi"},
        "limits": {"cpu": "500m", "memory": "256Mi"},
    }, "the limits that are usual here"
    assert any(volume["name"].startswith("kube-api-access") for volume in agent["spec"]["volumes"])
    assert pods["debug"]["spec"]["overhead"] == {"cpu": "50m", "memory": "64Mi"}
    assert pods["db-0"]["status"]["qosClass"] == "Guaranteed"
    hostnames = {pod["spec"]["hostname"] for pod in pods.values() if "job-name" in pod["metadata"]["labels"]}
    assert hostnames == {"convert-0", "convert-1", "convert-2"}


def test_claims_are_bound(desk: NamespaceKubectl) -> None:
    def claims() -> dict[str, tuple[str, str]]:
        obj = desk.get("pvc")["items"]
        return {item["metadata"]["name"]: (item["status"]["phase"], item["spec"]["storageClassName"]) for item in obj}

    bound = {"uploads": "standard", "data-db-0": "standard", "data-db-1": "standard"}
    expected = {name: ("Bound", name_of_class) for name, name_of_class in {**bound, "disk": "by-hand"}.items()}
    until(lambda: claims() == {**expected, "archive": ("Pending", "elsewhere")}, "all but what nobody uses are bound")
    assert desk.get("pv", "typical-disk")["spec"]["claimRef"]["name"] == "disk"
    until(lambda: "WaitForFirstConsumer" in desk("describe", "pvc", "archive"), "and that one says why")


def test_services_have_endpoints(desk: NamespaceKubectl) -> None:
    services = {item["metadata"]["name"]: item["spec"] for item in desk.get("services")["items"]}
    assert services["db"]["clusterIP"] == "None"
    assert "clusterIP" not in services["alias"]
    assert services["outside"]["ports"][0]["nodePort"] == 30007
    assert services["balanced"]["ports"][0]["nodePort"] > 0
    assert services["balanced"]["healthCheckNodePort"] > 0
    assert "<pending>" in desk("get", "service", "balanced")

    def addresses(service: str) -> set[str]:
        slices = desk.get("endpointslices", "-l", f"kubernetes.io/service-name={service}")["items"]
        return {
            address
            for endpoint_slice in slices
            for item in endpoint_slice["endpoints"] or ()
            for address in item["addresses"]
        }

    pods = desk.get("pods", "-l", "app=web")["items"]
    wanted = {pod["status"]["podIP"] for pod in pods}
    for service in ("web", "outside", "balanced"):
        until(lambda service=service: addresses(service) == wanted, f"{service} leads to the pods")  # type: ignore[misc]
    [endpoint_slices] = desk.get("endpointslices", "-l", "kubernetes.io/service-name=web")["items"]
    assert {port["name"]: port["port"] for port in endpoint_slices["ports"]} == {"http": 8080, "metrics": 9090}
    assert addresses("legacy") == {"192.0.2.42"}
    assert len(addresses("db")) == 2
    assert re.search(r"web:http \(\d+\.", desk("describe", "ingress", "web"))


def test_budgets_quotas_and_autoscalers_have_status(desk: NamespaceKubectl) -> None:
    until(lambda: desk.get("pdb", "web")["status"]["disruptionsAllowed"] == 1, "one of three may go")
    until(lambda: desk.get("pdb", "db")["status"]["disruptionsAllowed"] == 1, "half of two may go")
    until(lambda: desk.get("quota", "urgent")["status"]["used"] == {"pods": "3"}, "those of a class")
    used = desk.get("quota", "team")["status"]["used"]
    # web 3, db 2, agent 3, debug 1; of the Job all have ended.
    assert (used["pods"], used["count/deployments.apps"], used["requests.storage"]) == ("9", "1", "28Gi")
    until(lambda: "AbleToScale" in (desk.conditions("hpa", "web")), "the autoscaler looks")
    conditions = desk.conditions("hpa", "web")
    assert conditions["AbleToScale"][0] == "True"
    assert len(desk.get("hpa", "web")["spec"]["metrics"]) == 5
    until(lambda: desk.get("hpa", "web")["status"].get("currentReplicas") == 3, "and knows the size")


def test_job_from_a_cron_job(desk: NamespaceKubectl) -> None:
    desk("create", "job", "tried", "--from=cronjob/report")
    desk("wait", "--for=condition=complete", "job/tried", "--timeout=20s")
    assert desk.get("cronjob", "report")["spec"]["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"]


def may(desk: NamespaceKubectl, *words: str) -> bool:
    try:
        return desk("auth", "can-i", *words).strip() == "yes"
    except AssertionError:
        return False


def test_role_bindings_grant_rights(desk: NamespaceKubectl) -> None:
    assert may(desk, "list", "pods", "--as=jane")
    assert may(desk, "delete", "deployments/web", "--as=jane")
    assert not may(desk, "delete", "deployments/other", "--as=jane")
    assert may(desk, "get", "pods", "--as=system:serviceaccount:typical:web")
    until(lambda: desk.get("clusterrole", "typical-monitoring")["rules"], "rules are gathered")
    assert may(desk, "get", "services", "--as=ann", "--as-group=watchmen")
    assert not may(desk, "get", "secrets", "--as=ann", "--as-group=watchmen")


def test_forbidden_requests_are_rejected(desk: NamespaceKubectl) -> None:
    large = ("create", "deployment", "large", "--image=i", "--replicas=51", "--dry-run=server")
    until(lambda: "no more than 50" in str(_is_refused(desk, *large)), "the policy is in force", 15)
    assert "is immutable when `immutable` is set" in str(
        _is_refused(desk, "patch", "configmap", "fixed", "--type=merge", "-p", '{"data": {"answer": "41"}}')
    )
    assert "maximum cpu usage per Container is 8, but limit is 9" in str(
        _is_refused(desk, "run", "huge", "--image=i", '--overrides={"spec":{"containers":[{"name":"huge","image":"i",'
                    '"resources":{"limits":{"cpu":"9"}}}]}}')
    )  # fmt: skip
    unknown = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "typo"}, "dta": {"a": "b"}}
    for flags in ((), ("--server-side",)):
        text = str(_is_refused(desk, "apply", "--validate=strict", *flags, "-f", "-", stdin=unknown))
        assert "dta" in text
        assert "typo" not in desk("get", "configmaps")


def _is_refused(desk: NamespaceKubectl, *words: str, stdin: Any = None) -> str | None:
    """kubectl's error, or None if it succeeded."""
    try:
        desk(*words, stdin=stdin)
    except AssertionError as error:
        return str(error)
    return None


def test_custom_resources_are_served(desk: NamespaceKubectl) -> None:
    desk("wait", "--for=condition=Established", "crd/crontabs.typical.example.com", "--timeout=10s")
    assert desk("apply", "--validate=strict", "-f", "-", stdin=CRON_TAB).strip().endswith("mine created")
    obj = desk.get("ct", "mine")
    assert obj["spec"] == {**CRON_TAB["spec"], "image": "busybox", "replicas": 1}  # type: ignore[dict-item]
    assert desk("get", "ct", "--field-selector=spec.image=busybox", "-o", "name").split() == [
        "crontab.typical.example.com/mine"
    ]
    desk("scale", "ct/mine", "--replicas=3")
    assert "at most ten" in str(_is_refused(desk, "scale", "ct/mine", "--replicas=11"))
    wrong = {**CRON_TAB, "spec": {"cronSpec": "never"}}
    assert "should match" in str(_is_refused(desk, "apply", "-f", "-", stdin=wrong))
    assert "* * * * */5" in desk("get", "ct")


def test_second_apply_changes_nothing(desk: NamespaceKubectl) -> None:
    before = desk.generations()
    again = desk.apply()
    changed = {name for name, word in again.items() if word != "unchanged"}
    # kubectl can't compare member by member what is replaced as a whole, templates of claims and selectors of budgets.
    assert changed <= {"statefulset.apps/db", "poddisruptionbudget.policy/db", "poddisruptionbudget.policy/web"}
    assert desk.generations() == before


def test_server_side_apply_takes_ownership_and_changes_nothing(desk: NamespaceKubectl) -> None:
    """With force: atomic fields with defaults in them, such as ``fieldRef``, differ from the applied ones."""
    before = desk.generations()
    assert "valueFrom.fieldRef" in str(_is_refused(desk, "apply", "--server-side", "-f", str(MANIFEST)))
    assert set(desk.apply("--server-side", "--force-conflicts").values()) == {"serverside-applied"}
    # Of a Deployment annotations count as well, and kubectl's own of what was applied last is another one now.
    deployment = "Deployment/web"
    assert {**desk.generations(), deployment: before[deployment]} == before
    managers = {
        managed_field["manager"]
        for managed_field in desk.get("deployment", "web", "--show-managed-fields")["metadata"]["managedFields"]
    }
    assert "kubectl" in managers
    assert "kubectl-client-side-apply" not in managers


def test_server_side_apply_creates_everything(desk: NamespaceKubectl) -> None:
    """As a dry run in a separate namespace; and actually for objects without preconditions."""
    desk("delete", "service/outside", "deployment/web", "--timeout=30s")
    desk("create", "namespace", "fresh")
    until(lambda: "/default" in desk("--namespace=fresh", "get", "sa", "-o", "name"), "pods may be made there")
    tried = desk.apply("--namespace=fresh", "--server-side", "--force-conflicts", "--dry-run=server")
    assert len(tried) == OBJECTS
    assert "secret/passwords" not in desk("--namespace=fresh", "get", "secrets", "-o", "name")
    assert set(desk.apply("--server-side").values()) == {"serverside-applied"}
    desk.wait_until_ready()
    entries = desk.get("deployment", "web", "--show-managed-fields")["metadata"]["managedFields"]
    assert ("kubectl", "Apply") in {(entry["manager"], entry["operation"]) for entry in entries}
