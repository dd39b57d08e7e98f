"""Admission as users of kubectl see it: rejections, warnings and defaults."""

import os
import subprocess
from collections.abc import Iterator

import pytest
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer
from tests.clients.test_kubectl import KUBECTL, Kubectl

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")
LABEL = "pod-security.kubernetes.io/"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with EmbeddedServer(tmp_path_factory.mktemp("admission")) as running:
        yield Kubectl(running, running.kubeconfig("admin", token=ADMIN_TOKEN))


def in_namespace(kubectl: Kubectl, name: str) -> None:
    kubectl.namespace = name
    kubectl("create", "namespace", name)


def stderr_of(kubectl: Kubectl, *arguments: str) -> str:
    """kubectl's standard error."""
    done = subprocess.run(
        kubectl.command(*arguments),
        capture_output=True,
        text=True,
        env={**os.environ, **kubectl.environment},
        timeout=30,
        check=True,
    )
    return done.stderr.strip()


def test_stricter_pod_security_label_warns_and_rejects(kubectl: Kubectl) -> None:
    in_namespace(kubectl, "secure")
    host = '{"spec": {"hostNetwork": true}}'
    kubectl("run", "old", "--image=i", f"--overrides={host}")
    warned = stderr_of(kubectl, "label", "namespace", "secure", f"{LABEL}enforce=baseline", f"{LABEL}warn=restricted")
    assert warned.splitlines() == [
        'Warning: existing pods in namespace "secure" violate the new PodSecurity enforce level "baseline:latest"',
        "Warning: old: host namespaces",
    ]
    refused = kubectl("run", "new", "--image=i", f"--overrides={host}", fails=True)
    assert refused.strip() == (
        'Error from server (Forbidden): pods "new" is forbidden: violates PodSecurity "baseline:latest": host '
        "namespaces (hostNetwork=true)"
    )
    warned = stderr_of(kubectl, "create", "deployment", "web", "--image=i")
    assert warned.startswith(
        'Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
    )
    wrong = kubectl("label", "--overwrite", "namespace", "secure", f"{LABEL}enforce=nothing", fails=True)
    assert "must be one of privileged, baseline, restricted" in wrong


def test_quota_shows_usage_and_rejects_excess(kubectl: Kubectl) -> None:
    in_namespace(kubectl, "small")
    kubectl("create", "quota", "q", "--hard=pods=1,requests.cpu=1")
    counted = '{"status": {"hard": {"pods": "1", "requests.cpu": "1"}, "used": {"pods": "0", "requests.cpu": "0"}}}'
    kubectl("patch", "quota", "q", "--subresource=status", "--type=merge", "-p", counted)
    cpu = '{"spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "300m"}}}]}}'
    kubectl("run", "a", "--image=i", f"--overrides={cpu}")
    described = kubectl("describe", "quota", "q").splitlines()
    assert [line.split() for line in described[-2:]] == [["pods", "1", "1"], ["requests.cpu", "300m", "1"]]
    another = cpu.replace('"a"', '"b"')
    refused = kubectl("run", "b", "--image=i", f"--overrides={another}", fails=True)
    assert refused.strip().endswith(
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )


def test_limit_range_defaults(kubectl: Kubectl) -> None:
    in_namespace(kubectl, "limited")
    limits = [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]
    kubectl(
        "create", "-f", "-",
        stdin={"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}},
    )  # fmt: skip
    kubectl("run", "a", "--image=i")
    created = kubectl.get("pod", "a")
    assert created["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert "cpu request for container a; cpu limit for container a" in kubectl("describe", "pod", "a")
    large = '{"spec": {"containers": [{"name": "b", "image": "i", "resources": {"limits": {"cpu": "3"}}}]}}'
    refused = kubectl("run", "b", "--image=i", f"--overrides={large}", fails=True)
    assert refused.strip().endswith("maximum cpu usage per Container is 2, but limit is 3")
