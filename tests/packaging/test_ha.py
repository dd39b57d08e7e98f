"""``deploy/ha``: one declaration for local processes and compose, valid flags, a working load balancer."""

import argparse
import asyncio
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import balancer
import ha
import pytest
import yaml
from tests.programs import ROOT, free_port, free_port_range, until

import programs as declared
from pilothouse.cli import apiserver, manager, nodes, scheduler
from pilothouse.env import Env
from pilothouse.serving.certificates import create_authority, issue_server

_FLAGS = {"apiserver": apiserver, "manager": manager, "scheduler": scheduler, "nodes": nodes}
_LAYOUTS = {"local": ha.local(Path("/x"), 6443), "compose": ha.composed()}


def test_compose_file_is_current() -> None:
    document = yaml.safe_load((ROOT / "deploy/ha/compose.yaml").read_text())
    assert document == ha.compose(), "python deploy/ha/ha.py compose > deploy/ha/compose.yaml"


@pytest.mark.parametrize("command", ["status", "compose"])
def test_a_reader_that_has_exited_ends_it_without_a_traceback(tmp_path: Path, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, str(ROOT / "deploy/ha/ha.py"), command, "--dir", str(tmp_path)]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_compose_and_local_processes_have_the_same_flags() -> None:
    def names(at: declared.Layout) -> dict[str, list[str]]:
        return {
            program.name: [word.partition("=")[0] if "/" in word or ":" in word else word for word in program.command]
            for program in declared.programs(at)
        }

    local, compose = (
        {name: [word.partition("=")[0] for word in words] for name, words in names(at).items()}
        for at in _LAYOUTS.values()
    )
    assert local == compose


def test_compose_services_are_complete() -> None:
    document: Any = ha.compose()
    for name, service in document["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source == "./" or source in document["volumes"], (name, volume)
        for other in service.get("depends_on", ()):
            assert other in document["services"]
        if name != "keys":
            assert service["restart"] == "always"
        mounted = [volume.split(":")[1] for volume in service.get("volumes", ())]
        paths = [word.partition("=")[2] for word in service["command"] if "=/" in word]
        assert all(any(path == at or path.startswith(f"{at}/") for at in mounted) for path in paths), name


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_flags_are_valid(layout: str) -> None:
    checked = set()
    for program in declared.programs(_LAYOUTS[layout]):
        if program.command[0] == "pilothouse":
            _pilothouse, command, *flags = program.command
            _FLAGS[command].flag_set(command).parse(flags)
            checked.add(command)
    assert checked == set(_FLAGS)


def test_etcd_version_is_the_releases() -> None:
    """kubeadm's ``DefaultEtcdVersion`` of v1.36 (``cmd/kubeadm/app/constants``), and tagged images everywhere."""
    document: Any = ha.compose()
    images = {service["image"] for service in document["services"].values() if "build" not in service}
    assert images == {"registry.k8s.io/etcd:3.6.8-0"}
    built = {service["build"]["dockerfile_inline"] for service in document["services"].values() if "build" in service}
    (first,) = {text.splitlines()[0] for text in built}
    documented = re.findall(
        r"podman build -f deploy/Containerfile -t (\S+)", (ROOT / "deploy/Containerfile").read_text()
    )
    assert first == f"FROM {documented[0]}"


def test_container_scripts_use_only_the_standard_library() -> None:
    for name in ("ha.py", "programs.py", "balancer.py"):
        code = f"import sys; sys.path.insert(0, {str(ROOT / 'deploy/ha')!r}); import {name.removesuffix('.py')}"
        subprocess.run([sys.executable, "-SIc", code], check=True)


def test_compose_python_commands_are_valid() -> None:
    document: Any = ha.compose()
    checks = {
        name: service["healthcheck"]["test"]
        for name, service in document["services"].items()
        if "healthcheck" in service
    }
    assert {name for name, test in checks.items() if test[1] == "etcdctl"} == set(declared.ETCD)
    scripts = {name: test[2:] for name, test in checks.items() if test[1] == "python"}
    assert set(scripts) == {*declared.API_SERVERS, *declared.MANAGERS, declared.BALANCER}
    for name, (script, *words) in scripts.items():
        assert script == "/ha/ha.py"
        assert "./:/ha:ro" in document["services"][name]["volumes"]
        words = [re.sub(r":\d+", f":{free_port()}", word) for word in words]
        done = subprocess.run(
            [sys.executable, "-SEs", str(ROOT / "deploy/ha/ha.py"), *words], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.split(" ", 1)[1]) == (1, "is not healthy\n"), "nothing listens here"
    balancing: Any = document["services"][declared.BALANCER]["command"]
    assert balancing[:2] == ["python", "/ha/balancer.py"]
    assert balancer.parser().parse_args(balancing[2:]).listen == "0.0.0.0:6443"
    assert "ha.py prepare" in document["services"]["keys"]["command"][2]


def test_stop_and_status_say_that_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = argparse.Namespace(dir=tmp_path, port=6443, etcd="")
    for work in (ha.stop, ha.status):
        work(arguments)
        assert capsys.readouterr().out == f"{tmp_path}: nothing runs\n"
    with subprocess.Popen(["sleep", "60"]) as program:
        started = {"pid": program.pid, "starts": 1, "command": ["sleep", "60"]}
        state = {"supervisor": 2**22 + 1, "programs": {"a": started}}
        (tmp_path / "state.json").write_text(json.dumps(state))
        threading.Thread(target=program.wait).start()  # reaps it
        ha.stop(arguments)
    assert capsys.readouterr().out == f"{tmp_path}: stopped; the data stays\n"


def test_a_process_runs_from_the_moment_on_at_which_it_was_started() -> None:
    command = ["sleep", "60"]
    for _ in range(300):  # before, 3 of 100 had no command yet
        with subprocess.Popen(command) as process:
            try:
                assert ha.is_running(process.pid, command)
            finally:
                process.kill()
    with subprocess.Popen(command) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not ha.is_running(process.pid, command), "it waits for its parent"


def test_start_rejects_ports_that_are_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha, "START_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        arguments = argparse.Namespace(dir=tmp_path, port=port, etcd=sys.executable)
        for work in (ha.start, ha.run):
            with pytest.raises(SystemExit, match=rf"^127\.0\.0\.1:{port} is in use: .*--port"):
                work(arguments)
    assert list(tmp_path.iterdir()) == [], "no keys of a cluster that was never started"


def test_etcd_that_is_named_is_the_one_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("etcd", "etcd-3.6"):
        (tmp_path / name).touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert ha.find_etcd("") == str(tmp_path / "etcd")
    assert ha.find_etcd("etcd-3.6") == str(tmp_path / "etcd-3.6")
    with pytest.raises(SystemExit, match=r"^--etcd=/nowhere/etcd: there is no such program$"):
        ha.find_etcd("/nowhere/etcd")


@pytest.mark.parametrize("module", ["pilothouse", "grpc"])
def test_start_names_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setattr(ha, "START_SECONDS", 0.0)
    monkeypatch.setattr(ha, "find_spec", lambda name: None if name == module else object())
    with pytest.raises(SystemExit, match=rf"has no module {module}: pip install 'pilothouse\[etcd\]'"):
        ha.start(argparse.Namespace(dir=tmp_path, port=free_port(), etcd=sys.executable))


def test_cluster_keeps_its_ports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The members of etcd have stored the addresses of each other."""
    assert ha.port_of(tmp_path, None) == 6443
    declared.prepare(ha.local(tmp_path, 7000), tmp_path / "keys")
    assert ha.port_of(tmp_path, 8000) == 8000, "no member was started"
    (tmp_path / "etcd-1").mkdir()
    assert ha.port_of(tmp_path, None) == ha.port_of(tmp_path, 7000) == 7000
    with pytest.raises(SystemExit, match="its members of etcd have stored the ports of --port=7000"):
        ha.port_of(tmp_path, 8000)
    arguments = argparse.Namespace(dir=tmp_path, port=None, etcd="", server="", keys=None)
    with pytest.raises(SystemExit, match=r"no certificate .* start the cluster first"):
        ha.show_kubeconfig(arguments)
    (tmp_path / "keys" / "ca.crt").write_text("certificate")
    ha.show_kubeconfig(arguments)
    assert json.loads(capsys.readouterr().out)["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7000"


@pytest.mark.slow
def test_start_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etcd = tmp_path / "etcd"
    etcd.write_text("#!/bin/sh\necho no space left on device\nexit 3\n")
    etcd.chmod(0o700)
    supervisor = tmp_path / "ha" / "logs" / "supervisor.log"

    def is_ready(_address: str) -> bool:
        until(lambda: "etcd-1 has ended" in supervisor.read_text(), "etcd has ended")
        return False

    monkeypatch.setattr(ha, "is_ready", is_ready)
    monkeypatch.setattr(ha, "START_SECONDS", 0.0)
    port = free_port_range(max(ha.PORTS.values()) + 1)
    arguments = argparse.Namespace(dir=tmp_path / "ha", port=port, etcd=str(etcd))
    with pytest.raises(SystemExit, match=r"^not ready: .*\n  etcd-1 has ended with 3: no space left on device\n"):
        ha.start(arguments)


def test_keys_and_tokens_are_created_once(tmp_path: Path) -> None:
    at = ha.local(tmp_path, 6443)
    declared.prepare(at, tmp_path / "keys")
    before = {path.name: path.read_text() for path in (tmp_path / "keys").iterdir()}
    declared.prepare(at, tmp_path / "keys")
    assert {path.name: path.read_text() for path in (tmp_path / "keys").iterdir()} == before
    assert all(path.stat().st_mode & 0o77 == 0 for path in (tmp_path / "keys").iterdir())
    users = {line.split(",")[1] for line in before["tokens.csv"].splitlines()}
    assert users == {"system:kube-controller-manager", "system:kube-scheduler"}
    config = yaml.safe_load(before["manager-1.kubeconfig"])
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"


class _Server:
    """An API server for a load balancer: ``/readyz``, and otherwise its name."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.ready, self.port = name, True, free_port()
        pair = issue_server(create_authority("ca", Env().now()), ["127.0.0.1"], Env().now())
        pair.save(directory / f"{name}.crt", directory / f"{name}.key")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(directory / f"{name}.crt", directory / f"{name}.key")

    async def start(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, ssl=self._context)


class _Connection(asyncio.Protocol):
    def __init__(self, server: _Server) -> None:
        self._server = server

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if b"/readyz" in data:
            self._transport.write(f"HTTP/1.1 {200 if self._server.ready else 500} x\r\n\r\n".encode())
        else:
            self._transport.write(f"{self._server.name}\n".encode())


@pytest.mark.real_loop(timeout=30)
async def test_load_balancer_uses_ready_backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancer, "CHECK_SECONDS", 0.05)
    servers = [_Server(name, tmp_path) for name in ("one", "two")]
    listening = [await server.start() for server in servers]
    port = free_port()
    addresses = [f"127.0.0.1:{server.port}" for server in servers]
    running = asyncio.create_task(balancer.Balancer([*addresses, "127.0.0.1:1"]).run("127.0.0.1", port))
    trusting = ssl._create_unverified_context()

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(10):
            while True:
                try:
                    return await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
                except OSError:
                    await asyncio.sleep(0.02)

    async def get_healthz(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        writer.write(b"name\n")
        return (await reader.readline()).decode().strip()

    connections = [await connect() for _ in range(4)]
    assert {await get_healthz(*connection) for connection in connections} == {"one", "two"}
    servers[0].ready = False
    for reader, writer in connections:  # the files of the other one remain
        name = ""
        async with asyncio.timeout(10):
            while True:
                try:
                    name = await get_healthz(reader, writer)
                except OSError:
                    name = ""
                if name != "one":
                    break
                await asyncio.sleep(0.02)
        assert name in ("", "two")
    connections += [await connect() for _ in range(3)]
    assert {await get_healthz(*connection) for connection in connections[-3:]} == {"two"}
    for item in servers:  # as the health checks of compose do
        assert await asyncio.to_thread(ha.is_ready, f"127.0.0.1:{item.port}") is item.ready
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for server in listening:
        server.close()
    for _reader, writer in connections:
        writer.transport.abort()
    await asyncio.sleep(0)
