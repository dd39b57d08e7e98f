"""``deploy/ha/ha.py`` as documented: kubectl creates a Deployment, each process is killed, and the cluster recovers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ha
import pytest
from tests.programs import ROOT, environment, free_port_range, until
from tests.real_cluster import missing_programs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real(cluster="own"),
    pytest.mark.skipif(bool(missing_programs()), reason=missing_programs()),
    pytest.mark.timeout(0),
]

_SECONDS = 120.0
"""A Lease lasts for 15 s, and a busy machine is slow."""


def test_cluster_recovers_from_killing_each_process(tmp_path: Path, soak: bool) -> None:
    if not soak:
        pytest.skip("takes minutes: --soak")
    directory, port = tmp_path / "ha", free_port_range(max(ha.PORTS.values()) + 1)
    base = [sys.executable, str(ROOT / "deploy/ha/ha.py")]
    more = [f"--dir={directory}", f"--port={port}"]
    home = environment(tmp_path)

    def run(*words: str) -> str:
        return subprocess.run([*base, *words, *more], env=home, check=True, capture_output=True, text=True).stdout

    def kubectl(*words: str) -> str:
        command = ["kubectl", f"--kubeconfig={directory}/kubeconfig", "--request-timeout=10s", *words]
        done = subprocess.run(command, env=home, check=False, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def is_ready(replicas: int) -> bool:
        status = json.loads(kubectl("get", "deployment", "web", "-o=json") or "{}").get("status", {})
        return bool(status.get("readyReplicas") == status.get("replicas") == replicas)

    run("start")
    try:
        assert json.loads(run("kubeconfig"))["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{port}"
        assert kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
        until(lambda: is_ready(2), "the Deployment is ready", _SECONDS)
        killed = 0
        for name in ha.read_state(directory):
            if name == "supervisor":
                continue
            pid = int(str(ha.read_state(directory)[name]["pid"]))
            os.kill(pid, signal.SIGKILL)
            killed += 1
            replicas = 2 + killed % 3
            began = time.monotonic()
            until(lambda wanted=replicas: kubectl("scale", "deployment/web", f"--replicas={wanted}"), name, _SECONDS)  # type: ignore[misc]
            until(lambda wanted=replicas: is_ready(wanted), f"{name} was killed", _SECONDS)  # type: ignore[misc]
            print(f"{name} was killed: {replicas} pods are ready {time.monotonic() - began:.1f} s later")
        assert killed == 11
        running = ha.read_state(directory)
    finally:
        run("stop")
    assert ha.read_state(directory) == {}
    commands = {int(str(value["pid"])): value["command"] for value in running.values()}
    assert not any(ha.is_running(pid, command) for pid, command in commands.items() if isinstance(command, list))
