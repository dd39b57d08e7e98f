"""``pilothouse up --processes 2``, with real processes."""

import asyncio
import json
import os
import signal
from pathlib import Path

from tests.programs import Program, pilothouse, run_pilothouse, until

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.client import Client, merge_patch
from pilothouse.client.connect import connect
from pilothouse.env import Env

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx}]}
"""


def children(process: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def pods(directory: Path) -> list[str]:
    printed = run_pilothouse(directory, "get", "pods", "-o", "json", "--kubeconfig=k")
    return [pod["status"]["phase"] for pod in json.loads(printed.stdout)["items"]] if printed.returncode == 0 else []


async def scale(kubeconfig: Path, replicas: int) -> None:
    env = Env()
    client = Client(connect(env, kubeconfig=str(kubeconfig)), env)
    await client.patch(DEPLOYMENTS, "web", merge_patch({"spec": {"replicas": replicas}}), "default")
    await client.close()


def started(directory: Path, *words: str) -> Program:
    return pilothouse(directory, "up", "--processes=2", "--port=0", "--kubeconfig=k", *words)


def test_the_programs_work_and_survive_their_process(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(MANIFEST)
    with started(tmp_path, "-f", "web.yaml") as up:
        up.until("pilothouse is ready: .* 3 nodes, stored in memory")
        until(lambda: pods(tmp_path) == ["Running"] * 3, "three pods run")
        (programs,) = children(up.process.pid)
        os.kill(programs, signal.SIGKILL)
        up.until("The process of the programs was killed, and is started again.*signal=9")
        asyncio.run(scale(tmp_path / "k", 4))
        until(lambda: pods(tmp_path) == ["Running"] * 4, "four pods run")
        (programs,) = children(up.process.pid)
        assert up.stop() == 0
        assert not is_running(programs)
        assert "has stopped" in up.log


def test_the_programs_end_with_the_api_server(tmp_path: Path) -> None:
    with started(tmp_path) as up:
        up.until("pilothouse is ready")
        (programs,) = children(up.process.pid)
        up.kill()
        until(lambda: not is_running(programs), "the programs have ended")


def test_an_error_of_the_programs_ends_the_plane(tmp_path: Path) -> None:
    with started(tmp_path, "--decision-log=/dev/null/log") as up:
        assert up.wait() == 1
        assert "/dev/null/log" in up.log
        assert "Error: the process of the controllers, the scheduler and the nodes has ended with exit code 1" in up.log
        assert "Traceback" not in up.log


def test_the_number_of_processes_is_checked(tmp_path: Path) -> None:
    refused = run_pilothouse(tmp_path, "up", "--processes=3")
    assert (refused.returncode, "--processes must be 1 or 2, got 3" in refused.stderr) == (2, True)
