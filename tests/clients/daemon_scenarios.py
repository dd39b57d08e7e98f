"""DaemonSet scenarios on a cluster of five nodes, run on ``pilothouse up`` and on kube-apiserver.

``KubectlCluster`` is the cluster accessed with kubectl. ``Record`` watches the pods of ``agent`` and the DaemonSet, so
that bounds are checked in every state and not only in sampled ones.
"""

import contextlib
import json
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.clients.reading import Reading
from tests.programs import until
from tests.real_cluster import GOGC
from tests.workloads import pod_spec, workload

Doc = dict[str, Any]
HASH = "controller-revision-hash"


class KubectlCluster:
    """A cluster with the unshared nodes ``nodes``. ``command`` starts kubectl."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], nodes: Sequence[str]) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self.nodes = sorted(nodes)
        flags = dict(word.split("=", 1) for word in self._command[1:])
        self._reading = Reading(Path(flags["--kubeconfig"]), flags.get("-n", "default"))

    def __call__(self, *words: str, stdin: Any = None) -> str:
        """Run kubectl, and return its output."""
        done = subprocess.run(
            [*self._command, *words],
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start kubectl in the background."""
        return subprocess.Popen(
            [*self._command, *words], stdout=subprocess.PIPE, text=True, env=self._environment, bufsize=1
        )

    def get(self, *words: str) -> Any:
        """An object or a list."""
        return self._reading.get(*words)

    def create_object(self, document: Any) -> str:
        """Create with kubectl, without client-side validation, which takes half of the time and is tested elsewhere."""
        return self("create", "--validate=false", "-f", "-", stdin=document)

    def delete_all(self, *resources: str) -> None:
        """Delete all objects of these resources, without waiting; pods without a grace period."""
        self._reading.delete_all(*resources)

    def clear(self) -> None:
        """Restore the initial state: no DaemonSets, labels or taints, and all nodes."""
        self.delete_all("ds", "pods")
        until(lambda: not self.get("pods")["items"], "all pods are gone")
        self.delete_all("controllerrevisions")
        self("label", "nodes", *self.nodes, "pool-", "--overwrite")
        self("patch", "nodes", *self.nodes, "--type=merge", "-p", '{"spec":{"taints":null,"unschedulable":null}}')

    def pods(self) -> list[Doc]:
        """The daemon pods that are not terminating."""
        items: list[Doc] = self.get("pods", "-l", "app=agent")["items"]
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def places(self) -> list[str]:
        """The node of each Running and Ready daemon pod."""
        return sorted(target(pod) for pod in self.pods() if is_ready(pod))

    def until_on(self, nodes: Iterable[str], why: str, *, wanted: int | None = None) -> None:
        """Wait until exactly these nodes have a daemon, one each, and the status agrees. ``wanted``: the desired
        number, if not all."""
        expected = sorted(nodes)
        available = len(expected) if wanted is None else wanted

        def pods_are_placed() -> bool:
            return self.places() == expected == sorted(target(pod) for pod in self.pods())

        until(pods_are_placed, why)
        until(lambda: self.status().get("numberAvailable", 0) == available, f"the status says so: {why}")

    def on(self, node: str) -> Doc:
        """The daemon pod of a node."""
        (matching,) = [pod for pod in self.pods() if target(pod) == node]
        return matching

    def status(self) -> Doc:
        """The status of the DaemonSet."""
        obj: Doc = self.get("ds", "agent")["status"]
        return obj

    def images(self) -> set[str]:
        """The images of the daemon pods."""
        return {pod["spec"]["containers"][0]["image"] for pod in self.pods()}

    def revisions(self) -> dict[str, int]:
        """The number of each revision, by name."""
        return {item["metadata"]["name"]: item["revision"] for item in self.get("controllerrevisions")["items"]}

    def create(self, **more: Any) -> None:
        """The DaemonSet ``agent``; ``selector`` and ``tolerations`` are its pods', the rest is the update strategy."""
        pod = pod_spec("pause:1", terminationGracePeriodSeconds=1)
        pod["nodeSelector"] = more.pop("selector", {"pool": "agents"})
        pod["tolerations"] = more.pop("tolerations", [])
        strategy = {"type": "RollingUpdate", "rollingUpdate": more}
        document = workload("DaemonSet", "agent", pod=pod, updateStrategy=strategy)
        self.create_object(document)

    def create_everywhere(self, **rolling: Any) -> None:
        """Create the DaemonSet on all nodes, and wait for it."""
        self("label", "node", *self.nodes, "pool=agents", "--overwrite")
        self.create(**rolling)
        self.until_on(self.nodes, "every node has a ready daemon")


def target(pod: Doc) -> str:
    """The node of a bound or pending daemon pod."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def is_live(pod: Doc) -> bool:
    """Whether the pod is active."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in {"Failed", "Succeeded"}


def is_terminated_and_terminating(pod: Doc) -> bool:
    """Whether the pod is terminated and terminating."""
    return "deletionTimestamp" in pod["metadata"] and pod["status"].get("phase") in {"Failed", "Succeeded"}


def is_ready(pod: Doc) -> bool:
    """Whether the pod is Running, Ready and not terminating."""
    conditions = pod["status"].get("conditions", ())
    return is_live(pod) and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


class Record:
    """Watches the pods and their DaemonSet, or other ``owner``, between ``__enter__`` and ``__exit__``.

    ``check`` is called with all pods after each write to one of them; its exception is raised at the end.
    """

    def __init__(
        self,
        cluster: KubectlCluster,
        check: Callable[[list[Doc]], None],
        *,
        owner: tuple[str, str] = ("ds", "agent"),
        pods: str = "app=agent",
    ) -> None:
        self._cluster = cluster
        self._judge = check
        self._owner = owner
        self._selected = ("pods", "-l", pods)
        self._pods: dict[str, Doc] = {}
        self._known: set[str] = set()
        """The initial pods: checks start when all have been observed."""
        self._watches: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._failure: AssertionError | None = None
        self.states = 0
        """The number of checked states."""
        self.statuses: list[Doc] = []
        """All observed statuses of the owner."""

    def __enter__(self) -> Self:
        self._known = {pod["metadata"]["name"] for pod in self._cluster.get(*self._selected)["items"]}
        self._follow(self._pod, *self._selected)
        self._follow(self._set, *self._owner)
        try:
            until(lambda: not self._known and self.statuses, "the watches have begun")
        except AssertionError:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            # The watches are behind: wait until they show what is there now.
            def caught_up() -> bool:
                items = self._cluster.get(*self._selected)["items"]
                versions = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}
                return versions == {name: pod["metadata"]["resourceVersion"] for name, pod in self._pods.items()}

            until(lambda: self._failure is not None or caught_up(), "the watch has caught up")
        self._end()
        if error is None and self._failure is not None:
            raise self._failure

    def _end(self) -> None:
        for watch in self._watches:
            watch.terminate()
            watch.wait(10)
        for thread in self._threads:
            thread.join(10)
        for watch in self._watches:
            assert watch.stdout is not None
            watch.stdout.close()

    def _follow(self, take: Callable[[str, Doc], None], *words: str) -> None:
        watch = self._cluster.start("get", *words, "--watch", "--output-watch-events", "-o", "json")
        thread = threading.Thread(target=self._read, args=(watch, take), name=f"watch of {words[0]}", daemon=True)
        self._watches.append(watch)
        self._threads.append(thread)
        thread.start()

    def _read(self, watch: "subprocess.Popen[str]", take: Callable[[str, Doc], None]) -> None:
        assert watch.stdout is not None
        with contextlib.suppress(ValueError):  # the last line may be broken off
            for line in watch.stdout:
                event = json.loads(line)
                take(event["type"], event["object"])

    def _pod(self, type_: str, pod: Doc) -> None:
        name = pod["metadata"]["name"]
        if type_ == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = pod
        self._known.discard(name)
        if self._known or self._failure is not None:
            return
        self.states += 1
        try:
            self._judge(list(self._pods.values()))
        except AssertionError as error:
            self._failure = error

    def _set(self, _type: str, obj: Doc) -> None:
        self.statuses.append(obj["status"])


# The scenarios


def node_selectors_taints_and_node_changes(cluster: KubectlCluster) -> None:
    """Node selectors, taints and tolerations, and changes of nodes."""
    first, second, third, fourth, fifth = cluster.nodes
    cluster("label", "node", first, second, third, "pool=agents")
    cluster("taint", "node", second, "dedicated=agents:NoSchedule")
    cluster("taint", "node", third, "dedicated=others:NoSchedule")
    tolerates = {"key": "dedicated", "operator": "Equal", "value": "agents", "effect": "NoSchedule"}
    cluster.create(tolerations=[tolerates], maxUnavailable=1)
    cluster.until_on([first, second], "two are labelled and tolerated")
    cluster("taint", "node", third, "dedicated-")
    cluster.until_on([first, second, third], "the third has lost its taint")
    cluster("cordon", fourth)
    cluster("label", "node", fourth, "pool=agents")
    cluster.until_on([first, second, third, fourth], "daemons go to cordoned nodes too")
    cluster("label", "node", first, "pool-")
    cluster.until_on([second, third, fourth], "the first has lost its label")
    cluster("taint", "node", second, "broken=yes:NoSchedule")
    cluster("label", "node", first, "pool=agents")
    cluster.until_on([first, second, third, fourth], "NoSchedule sends nobody away", wanted=3)
    cluster("taint", "node", second, "broken-")
    cluster("taint", "node", third, "broken=yes:NoExecute")
    cluster.until_on([first, second, fourth], "NoExecute does")
    cluster("taint", "node", third, "broken-")
    cluster.until_on([first, second, third, fourth], "and it comes back")
    assert fifth not in cluster.places()


def deleted_and_recreated_node(cluster: KubectlCluster) -> None:
    """A deleted node is not counted; when recreated, it gets a daemon pod."""
    *others, last = cluster.nodes
    cluster.create_everywhere(maxUnavailable=1)
    node = cluster.get("node", last)
    lost = cluster.on(last)["metadata"]["name"]
    cluster("delete", "node", last)
    until(lambda: cluster.status()["desiredNumberScheduled"] == len(others), "it is no longer wanted")
    # Its pod is the garbage collector's of pods, which waits 40 s, or somebody's who is in a hurry.
    cluster("delete", "pod", lost, "--grace-period=0", "--force")
    cluster.until_on(others, "the other nodes have theirs")
    again = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": last, "labels": node["metadata"]["labels"]}}
    cluster.create_object(again)
    cluster.until_on(cluster.nodes, "it is back, and so is its daemon")
    assert cluster.on(last)["metadata"]["name"] != lost


def rolling_update_respects_max_unavailable(cluster: KubectlCluster) -> None:
    """``maxUnavailable: 2``, after every write."""
    cluster.create_everywhere(maxUnavailable=2)
    most = 0

    def check(pods: list[Doc]) -> None:
        nonlocal most
        # Of a pod that has ended and is being deleted nothing is there but a record: it holds no place.
        on = Counter(target(pod) for pod in pods if not is_terminated_and_terminating(pod))
        assert max(on.values()) == 1, f"two pods on a node, one of them perhaps on its way out: {on}"
        missing = sorted({*cluster.nodes} - {target(pod) for pod in pods if is_ready(pod)})
        assert len(missing) <= 2, f"nobody serves {missing}"
        most = max(most, len(missing))

    with Record(cluster, check) as record:
        cluster("set", "image", "ds/agent", "main=pause:2")
        assert "successfully rolled out" in cluster("rollout", "status", "ds/agent", "--timeout=60s")
        cluster.until_on(cluster.nodes, "all are new")
        assert cluster.images() == {"pause:2"}
    assert most == 2, "the bound was made use of"
    # Five pods, each marked for deletion, removed, created, bound, pending and running.
    assert record.states >= 5 * 5, record.states
    _check_statuses(record, cluster, unavailable=2)


def rolling_update_respects_max_surge(cluster: KubectlCluster) -> None:
    """``maxSurge: 1``, after every write."""
    cluster.create_everywhere(maxUnavailable=0, maxSurge=1)
    most = 0

    def check(pods: list[Doc]) -> None:
        nonlocal most
        missing = sorted({*cluster.nodes} - {target(pod) for pod in pods if is_ready(pod)})
        assert not missing, f"nobody serves {missing}"
        live = Counter(target(pod) for pod in pods if is_live(pod))
        double = sorted(node for node, count in live.items() if count > 1)
        assert max(live.values()) <= 2, f"more than one old and one new: {live}"
        for node in double:
            assert len({pod["metadata"]["labels"][HASH] for pod in pods if is_live(pod) and target(pod) == node}) == 2
        # The new pod serves: from here on its node has only an old one to lose, and the next node may begin.
        surging = [node for node in double if sum(is_ready(pod) for pod in pods if target(pod) == node) < 2]
        assert len(surging) <= 1, f"two pods each on {surging}"
        most = max(most, len(surging))

    with Record(cluster, check) as record:
        cluster("set", "image", "ds/agent", "main=pause:2")
        assert "successfully rolled out" in cluster("rollout", "status", "ds/agent", "--timeout=60s")
        cluster.until_on(cluster.nodes, "all are new")
        assert cluster.images() == {"pause:2"}
    assert most == 1, "there was a surge"
    assert record.states >= 5 * 5, record.states
    _check_statuses(record, cluster, unavailable=0)


def _check_statuses(record: Record, cluster: KubectlCluster, *, unavailable: int) -> None:
    generations = [status.get("observedGeneration", 0) for status in record.statuses]
    assert generations == sorted(generations)
    for status in record.statuses:
        assert status["desiredNumberScheduled"] == len(cluster.nodes)
        assert status.get("numberUnavailable", 0) <= unavailable, status
        assert status["numberMisscheduled"] == 0, status


def rollback(cluster: KubectlCluster) -> None:
    """``kubectl rollout history``, ``undo`` and ``status``."""
    cluster.create_everywhere(maxUnavailable=5)
    for number in (2, 3):
        cluster("set", "image", "ds/agent", f"main=pause:{number}")
        cluster("rollout", "status", "ds/agent", "--timeout=60s")
    assert _history(cluster) == [1, 2, 3]
    assert "pause:2" in cluster("rollout", "history", "ds/agent", "--revision=2")
    assert "rolled back" in cluster("rollout", "undo", "ds/agent")
    cluster("rollout", "status", "ds/agent", "--timeout=60s")
    cluster.until_on(cluster.nodes, "all are as they were")
    assert cluster.images() == {"pause:2"}
    assert _history(cluster) == [1, 3, 4], "the old revision is the newest now, and no new one was made"
    cluster("rollout", "undo", "ds/agent", "--to-revision=1")
    cluster("rollout", "status", "ds/agent", "--timeout=60s")
    cluster.until_on(cluster.nodes, "all are as in the beginning")
    assert cluster.images() == {"pause:1"}
    assert _history(cluster) == [3, 4, 5]
    # Before v1.34 kubectl writes ``creationTimestamp: null`` into what it compares with what v1.36 stores.
    known = json.loads(cluster("version", "--client", "-o", "json"))["clientVersion"]["minor"]
    if int(known.rstrip("+")) >= 34:
        assert "already matches revision 5" in cluster("rollout", "undo", "ds/agent", "--to-revision=5")


def _history(cluster: KubectlCluster) -> list[int]:
    lines = cluster("rollout", "history", "ds/agent").splitlines()
    return [int(line.split()[0]) for line in lines if line[:1].isdigit()]


def recovers_from_changed_pods_and_revisions(cluster: KubectlCluster) -> None:
    """A deleted pod, a failed pod, and corrupt revisions."""
    cluster.create_everywhere(maxUnavailable=1)
    before = {target(pod): pod["metadata"]["name"] for pod in cluster.pods()}
    deleted, failed, *_rest = cluster.nodes
    cluster("delete", "pod", before[deleted])
    cluster(
        "patch", "pod", before[failed], "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Failed"}}'
    )
    until(lambda: before[failed] not in {pod["metadata"]["name"] for pod in cluster.pods()}, "the failed one is gone")
    cluster.until_on(cluster.nodes, "both are replaced")
    after = {target(pod): pod["metadata"]["name"] for pod in cluster.pods()}
    assert {node for node in cluster.nodes if before[node] != after[node]} == {deleted, failed}
    reasons = {event["reason"] for event in cluster.get("events")["items"]}
    assert "FailedDaemonPod" in reasons

    def untouched() -> bool:
        return {target(pod): pod["metadata"]["name"] for pod in cluster.pods()} == after

    (name,) = cluster.revisions()
    cluster("delete", "controllerrevision", name)
    until(lambda: cluster.revisions() == {name: 1}, "a revision that was deleted is written again")
    cluster("label", "controllerrevision", name, f"{HASH}-")
    labels = "jsonpath={.metadata.labels}"
    until(lambda: HASH in cluster("get", "controllerrevision", name, "-o", labels), "its label is back")
    cluster("set", "image", "ds/agent", "main=pause:2")
    cluster("rollout", "status", "ds/agent", "--timeout=60s")
    cluster.until_on(cluster.nodes, "all are new")
    after = {target(pod): pod["metadata"]["name"] for pod in cluster.pods()}
    (newest,) = set(cluster.revisions()) - {name}
    cluster("patch", "controllerrevision", newest, "--type=merge", "-p", '{"revision":1}')
    until(lambda: cluster.revisions()[newest] == 2, "a number that was turned back is right again")
    assert untouched(), "none of this is a reason to replace a pod"


def environment(home: str) -> dict[str, str]:
    """The environment of kubectl."""
    return {"PATH": os.environ["PATH"], "HOME": home, "GOGC": GOGC}
