"""API server and manager as separate programs, traced to one collector."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.programs import pilothouse, run_pilothouse, until
from tests.tracing.collector import Collector, Received, collecting
from tests.tracing.documents import DEPLOYMENT

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env

PODS = "POST /api/v1/namespaces/{:namespace}/pods"


def config(directory: Path, port: int, rate: int = 1_000_000) -> str:
    path = directory / f"tracing-{port}.yaml"
    path.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
        f"endpoint: 127.0.0.1:{port}\nsamplingRatePerMillion: {rate}\n"
    )
    return f"--tracing-config-file={path}"


async def create(kubeconfig: Path, document: dict[str, Any]) -> None:
    env = Env()
    transport = connect(env, kubeconfig=str(kubeconfig))
    try:
        await Client(transport, env).create(DEPLOYMENTS.raw, document, "default")
    finally:
        await transport.close()


def pods(collector: Collector) -> list[Received]:
    """The requests that have created pods."""
    return [span for span in collector.spans if span.name == PODS]


@pytest.mark.slow
def test_trace_continues_in_a_remote_manager(tmp_path: Path) -> None:
    with collecting() as collector:
        flag = config(tmp_path, collector.port)
        with pilothouse(tmp_path, "apiserver", "--port=0", flag) as server:
            server.until("API server ready")
            kubeconfig = tmp_path / ".pilothouse" / "kubeconfig"
            with pilothouse(
                tmp_path, "manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0", flag
            ):
                # What is in the first list of a manager was brought by no event.
                asyncio.run(create(kubeconfig, {**DEPLOYMENT, "metadata": {"name": "before"}}))
                until(lambda: pods(collector), "the manager watches")
                asyncio.run(create(kubeconfig, DEPLOYMENT))
                until(lambda: len(pods(collector)) > 1, "the pod is created")
            assert server.stop() == 0  # it sends what is left
    pod = pods(collector)[1]
    assert [(span.service, span.name) for span in collector.chain(pod)] == [
        ("apiserver", "POST /apis/apps/v1/namespaces/{:namespace}/deployments"),
        ("apiserver", "Create"),
        ("apiserver", "Create etcd3"),
        ("kube-controller-manager", "watch deployments.apps"),
        ("kube-controller-manager", "deployment-controller sync"),
        ("kube-controller-manager", "HTTP POST"),
        ("apiserver", "POST /apis/apps/v1/namespaces/{:namespace}/replicasets"),
        ("apiserver", "Create"),
        ("apiserver", "Create etcd3"),
        ("kube-controller-manager", "watch replicasets.apps"),
        ("kube-controller-manager", "replicaset-controller sync"),
        ("kube-controller-manager", "HTTP POST"),
        ("apiserver", PODS),
    ]
    assert len({span.trace_id for span in collector.chain(pod)}) == 1


@pytest.mark.slow
def test_missing_collector_is_logged_once(tmp_path: Path) -> None:
    with pilothouse(tmp_path, "apiserver", "--port=0", config(tmp_path, 1)) as server:
        server.until("API server ready")
        asyncio.run(create(tmp_path / ".pilothouse" / "kubeconfig", DEPLOYMENT))
        server.until("Spans are lost", seconds=40)
        assert server.stop() == 0
    assert len(re.findall("Spans are lost", server.log)) == 1
    assert "Traceback" not in server.log
    assert "StatusCode.UNAVAILABLE" not in server.log


@pytest.mark.slow
def test_without_opentelemetry(tmp_path: Path) -> None:
    flag = config(tmp_path, 1)
    (tmp_path / "opentelemetry.py").write_text("raise ModuleNotFoundError('not here', name='opentelemetry')\n")
    for words in (("apiserver", "--port=0"), ("manager", "--master=http://127.0.0.1:1"), ("up", "--port=0")):
        ended = run_pilothouse(tmp_path, *words, flag)
        assert (ended.returncode, ended.stderr.splitlines()[-1]) == (
            1,
            "Error: --tracing-config-file needs OpenTelemetry: pip install 'pilothouse[tracing]'",
        )


OPERATOR = "from pilothouse.operator import App\napp = App('gardener')\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("apiserver", "--port=0"),
        ("manager", "--master=http://127.0.0.1:1"),
        ("scheduler", "--master=http://127.0.0.1:1"),
        ("nodes", "--master=http://127.0.0.1:1"),
        (
            "run",
            "garden.py",
            "--master=http://127.0.0.1:1",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        ),
        ("up", "--port=0"),
    ],
)
def test_invalid_configuration_ends_every_program(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "garden.py").write_text(OPERATOR)
    (tmp_path / "tracing.yaml").write_text("kind: TracingConfiguration\nsamplingRatePerMillion: -1\n")
    ended = run_pilothouse(tmp_path, *words, "--tracing-config-file=tracing.yaml")
    assert ended.returncode == 2
    assert (
        "Error: failed to validate tracing configuration: samplingRatePerMillion: Invalid value: -1: sampling rate "
        "must be positive\n"
    ) in ended.stderr
    assert "Traceback" not in ended.stderr
