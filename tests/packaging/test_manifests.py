"""The manifests in ``deploy/``: kubeadm's static pod with another image, and a Deployment."""

from typing import Any

import pytest
import yaml
from kubernetes_validate import validate
from tests.controllermanager.command_lines import COMMAND_LINES
from tests.controllermanager.usual import USUAL
from tests.packaging.manifests import DEPLOY, MANIFESTS, container, documents, pod_spec
from tests.programs import ROOT

import pilothouse
from pilothouse.apiserver.server import ApiServer
from pilothouse.cli.manager import flag_set
from pilothouse.controllermanager.app import pages_of
from pilothouse.controllermanager.flags import options_from
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import Options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, virtual
from pilothouse.plane import LocalClients
from pilothouse.storage import MemoryStore

PODS = ("deployment.yaml", "static-pod.yaml")


def options(name: str) -> Options:
    program, *flags = container(name)["command"]
    known = flag_set(program)
    return options_from(known.parse(flags), DESCRIPTORS, known)


def objects() -> list[Any]:
    return [
        pytest.param(document, id=f"{name}: {document['kind']} {document['metadata']['name']}")
        for name in MANIFESTS
        for document in documents(name)
    ]


@pytest.mark.parametrize("document", objects())
def test_manifests_are_valid_in_v1_36(document: dict[str, Any]) -> None:
    validate(document, "1.36", strict=True)


def test_static_pod_has_kubeadms_flags() -> None:
    assert container("static-pod.yaml")["command"] == ["kube-controller-manager", *COMMAND_LINES["kubeadm"].split()]


def test_static_pod_mounts_every_file_of_its_flags() -> None:
    _program, *flags = container("static-pod.yaml")["command"]
    files = {flag.partition("=")[2] for flag in flags if "=/" in flag}
    mounted = [mount["mountPath"] for mount in container("static-pod.yaml")["volumeMounts"]]
    assert all(any(file == path or file.startswith(f"{path}/") for path in mounted) for file in files)
    assert files


def test_deployment_runs_every_controller_but_replicaset() -> None:
    """Except those that need settings of the cluster, or an account that can escalate to administrator."""
    runs = {item.name for item in USUAL if not item.switch}
    assert list(options("deployment.yaml").controllers) == sorted(
        runs - {"clusterrole-aggregation-controller", "replicaset-controller"}
    )


def test_deployment_uses_its_own_lease() -> None:
    """Never under the Lease of the other manager, which runs other controllers."""
    election = options("deployment.yaml").leader_election
    assert election.enabled
    assert election.resource_name == "pilothouse-manager"
    assert documents("deployment.yaml")[0]["spec"]["replicas"] == 2


def test_static_pod_uses_upstreams_lease() -> None:
    election = options("static-pod.yaml").leader_election
    assert (election.enabled, election.resource_namespace, election.resource_name) == (
        True,
        "kube-system",
        "kube-controller-manager",
    )


@pytest.mark.parametrize("name", PODS)
def test_pod_has_no_privileges_and_a_read_only_root(name: str) -> None:
    security = container(name)["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod_spec(name)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    writable = {
        mount["name"]: mount["mountPath"] for mount in container(name)["volumeMounts"] if "readOnly" not in mount
    }
    volumes = {volume["name"]: volume for volume in pod_spec(name)["volumes"]}
    assert writable == {"tmp": "/tmp"}
    assert volumes["tmp"]["emptyDir"]["medium"] == "Memory"


def test_deployment_runs_as_nobody() -> None:
    """The static pod's is root, because kubeadm's files are root's."""
    security = pod_spec("deployment.yaml")["securityContext"]
    assert security["runAsNonRoot"]
    assert security["runAsUser"] > 0


@pytest.mark.parametrize("name", PODS)
def test_probes_use_anonymous_paths(name: str) -> None:
    async def main(env: Env) -> set[str]:
        server = ApiServer(env, MemoryStore(env))
        manager = Manager(env, Options(), LocalClients(env, server.transport).manager(), DESCRIPTORS)
        result = set(pages_of(env, Options(), manager).paths)
        await server.close()
        return result

    pages, open_pages = virtual.run(main), set(options(name).serving.always_allow_paths)
    probes = [probe["httpGet"] for key, probe in container(name).items() if key.endswith("Probe")]
    assert len(probes) >= 2
    for probe in probes:
        assert probe["path"] in pages & open_pages
        assert probe["scheme"] == "HTTPS"
        assert probe["port"] in {port["name"] for port in container(name)["ports"]}


@pytest.mark.parametrize("name", PODS)
def test_image_has_this_version(name: str) -> None:
    assert container(name)["image"].endswith(f":v{pilothouse.__version__}")


def test_grace_period_exceeds_the_shutdown_timeout() -> None:
    stop = options("deployment.yaml").shutdown_timeout
    assert pod_spec("deployment.yaml")["terminationGracePeriodSeconds"] > stop


def test_documentation_lists_every_file() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for file in DEPLOY.iterdir():
        assert file.name.endswith(".dockerignore") or f"deploy/{file.name}" in page, f"operating.md lacks {file.name}"


def test_manifests_have_no_yaml_anchors() -> None:
    """Some tools do not support them."""
    for name in MANIFESTS:
        tokens = yaml.scan((DEPLOY / name).read_text(encoding="utf-8"))
        assert not [token for token in tokens if isinstance(token, (yaml.AnchorToken, yaml.AliasToken))]
