"""Causes and the decision log over HTTP: to our API server, which records them, and to kube-apiserver, which ignores
the header."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.clients.embedded_server import EmbeddedServer
from tests.programs import pilothouse, run_pilothouse, until
from tests.real_cluster import RealCluster

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.client.decision_log import DecisionLog
from pilothouse.env import Env
from pilothouse.env.log_files import Rotation
from pilothouse.machinery.causes import Triggers, begin_sync, record_decision

DECISION = "2 of 3 desired: „web-a“ chosen, rank 1 of 3"


async def write_with_cause(kubeconfig: Path, namespace: str, log: Path) -> tuple[dict[str, Any], bytes]:
    """Create an object in a sync; the decision, and the recorded changes."""
    env = Env()
    transport = connect(env, kubeconfig=str(kubeconfig))
    decisions = DecisionLog(env, str(log), Rotation())
    client = Client(decisions.wrap(transport), env, user_agent="tests/1")
    triggers = Triggers()
    triggers.add("DELETED", "pods")
    begin_sync("web-controller", f"{namespace}/web", triggers)
    record_decision(DECISION)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "web-"}}
    try:
        raw = await client.create(CONFIG_MAPS.raw, body, namespace)
        metadata = json.loads(bytes(raw))
        path = f"/debug/history/changes?resource=configmaps&namespace={namespace}&name={metadata['metadata']['name']}"
        try:
            changes = (await client.request("GET", path)).body
        except Exception as error:  # noqa: BLE001  # of kube-apiserver, which has no such path
            changes = str(error).encode()
    finally:
        await decisions.close()
        await transport.close()
    return metadata, changes


@pytest.mark.real_loop
async def test_cause_header_is_recorded(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        kubeconfig = server.kubeconfig("admin", token="admin-token")
        metadata, changes = await write_with_cause(kubeconfig, "default", tmp_path / "log")
    (change,) = json.loads(changes)["changes"]
    cause = {
        "component": "web-controller",
        "key": "default/web",
        "decision": DECISION,
        "triggers": [{"type": "DELETED", "resource": "pods"}],
    }
    assert change["origin"]["cause"] == cause
    assert change["origin"]["user"] == "admin"
    line = json.loads((tmp_path / "log").read_text())
    assert line["cause"] == cause
    assert (line["name"], line["resourceVersion"]) == (metadata["metadata"]["name"], change["resourceVersion"])


@pytest.mark.real_loop
async def test_kube_apiserver_ignores_the_header(real_cluster: RealCluster, tmp_path: Path) -> None:
    namespace = real_cluster.namespace("causes")
    metadata, changes = await write_with_cause(real_cluster.kubeconfig, namespace, tmp_path / "log")
    assert b"the server could not find the requested resource" in changes
    assert metadata["metadata"]["namespace"] == namespace
    line = json.loads((tmp_path / "log").read_text())
    assert (line["uid"], line["resourceVersion"]) == (
        metadata["metadata"]["uid"],
        metadata["metadata"]["resourceVersion"],
    )
    assert line["cause"]["decision"] == DECISION


def test_manager_writes_its_decision_log(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        kubeconfig = server.kubeconfig("admin", token="admin-token")
        log = tmp_path / "new" / "decisions.log"
        manager = pilothouse(
            tmp_path,
            "manager",
            f"--kubeconfig={kubeconfig}",
            "--controllers=root-ca-certificate-publisher-controller",
            "--secure-port=0",
            "--leader-elect=false",
            f"--decision-log={log}",
        )
        with manager:
            until(lambda: log.exists() and log.read_bytes().count(b"\n") >= 4, "the log has a line for each namespace")
            assert manager.stop() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    written = {line["namespace"]: line for line in lines if line["resource"] == "configmaps"}
    assert sorted(written) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    cause = written["default"]["cause"]
    assert (cause["component"], cause["key"]) == ("root-ca-certificate-publisher-controller", "default")
    assert written["default"]["code"] == 201


@pytest.mark.parametrize("program", ["manager", "scheduler"])
def test_unopenable_log_is_reported_at_startup(tmp_path: Path, program: str) -> None:
    (tmp_path / "file").write_text("")
    done = run_pilothouse(tmp_path, program, "--master=http://127.0.0.1:1", "--decision-log=file/log")
    assert done.returncode == 1
    assert "--decision-log file/log can't be written: file is not a directory" in done.stderr
