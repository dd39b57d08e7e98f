"""Connections of interactive commands: contexts and namespaces of kubeconfigs, and stopped clusters."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from tests.clients.embedded_server import EmbeddedServer
from tests.programs import free_port
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS, NAMESPACES
from pilothouse.cli import main
from pilothouse.cli.clusters.cluster import Clusters, Record
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env, loops
from pilothouse.runtime import api_server


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Contexts ``admin`` and ``team``, with a ConfigMap in the namespace of each."""
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as server:
        path = server.kubeconfig("admin", ("system:masters",))
        document = yaml.safe_load(path.read_text())
        (entry,) = document["contexts"]
        document["contexts"] = [
            {"name": "admin", "context": entry["context"]},
            {"name": "team", "context": {**entry["context"], "namespace": "team"}},
        ]
        document["current-context"] = "admin"
        path.write_text(yaml.safe_dump(document))
        loops.run(_fill(str(path)))
        yield path


async def _fill(path: str) -> None:
    transport = connect(Env(), kubeconfig=path)
    client = Client(transport, Env())
    await client.create(NAMESPACES, {"metadata": {"name": "team"}})
    for namespace in ("team", "default"):
        await client.create(CONFIG_MAPS, {"metadata": {"name": f"of-{namespace}"}}, namespace)
    await transport.close()


@cases(
    "words, namespaces",
    {
        "the current context": ("get cm -o name", "of-default"),
        "a context": ("get cm -o name --context team", "of-team"),
        "a context and a namespace": ("get cm -o name --context team -n default", "of-default"),
        "history": ("history cm/of-team --context team", "ADDED"),
        "why": ("why cm/of-team --context team", "of-team"),
    },
)
def test_the_namespace_is_that_of_the_context(
    words: str, namespaces: str, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), f"--kubeconfig={kubeconfig}"]) == 0
    assert namespaces in capsys.readouterr().out


def test_missing_context(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "cm", "--context=prod", f"--kubeconfig={kubeconfig}"]) == 1
    assert "context 'prod' does not exist" in capsys.readouterr().err
    assert main(["get", "cm", "--context=prod", "--master=http://127.0.0.1:1"]) == 1
    assert "context 'prod' is one of a kubeconfig" in capsys.readouterr().err


@cases(
    "in_memory, words, way_out",
    {
        "stored": (False, "get pods", "`pilothouse start dev` starts it"),
        "in memory": (True, "why pod/x", "it was in memory, and nothing of it is left"),
    },
)
def test_stopped_cluster_is_an_error_at_once(
    in_memory: bool,
    words: str,
    way_out: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    port = free_port()
    cluster = Clusters().create(
        Record(name="dev", created="2026-01-01T00:00:00Z", port=port, started=True, in_memory=in_memory)
    )
    path = tmp_path / "config"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], "
        f'clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}"}}}}]}}'
    )
    for kubeconfig in (path, cluster.kubeconfig):  # the second is gone, as after a stop
        began = time.monotonic()
        assert main([*words.split(), f"--kubeconfig={kubeconfig}"]) == 1
        assert time.monotonic() - began < 5
        assert f'cluster "dev" does not run; {way_out}' in capsys.readouterr().err


def test_another_program_on_the_port_of_a_stopped_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(api_server, "WAIT_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        Clusters().create(Record(name="dev", created="2026-01-01T00:00:00Z", port=port, started=True))
        path = tmp_path / "config"
        path.write_text(
            "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], "
            f'clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}"}}}}]}}'
        )

        def answer() -> None:
            connection, _address = other.accept()
            with connection:
                connection.sendall(b"HTTP/1.0 400 no TLS here\r\n\r\n")

        with ThreadPoolExecutor(1) as pool:
            pool.submit(answer)
            assert main(["get", "pods", f"--kubeconfig={path}"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("Error: failed to wait for apiserver being healthy at ")
    assert printed.endswith(
        'right? Another program listens there: cluster "dev", whose port it is, does not run; '
        "`pilothouse start dev` starts it\n"
    )
