"""The directory of ``pilothouse envtest-assets``, used as envtest does."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.envtest import Environment
from tests.custom_resources import DEFINITIONS, definition, schema, version
from tests.programs import run_pilothouse, until
from tests.tables import cases

from pilothouse import KUBERNETES_VERSION
from pilothouse.cli import stand_in

WIDGETS = definition("Widget", version(schema=schema({"type": "object"})))


def create_assets(directory: Path, *words: str) -> Path:
    answer = run_pilothouse(directory, "envtest-assets", *words)
    assert answer.returncode == 0, answer.stderr
    return Path(answer.stdout.strip())


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_assets(tmp_path_factory.mktemp("assets"))


@pytest.fixture
def environment(assets: Path, tmp_path: Path) -> Iterator[Environment]:
    with Environment(assets, tmp_path) as running:
        yield running


def namespace_name(body: Any) -> str:
    return str(body["metadata"]["name"])


def test_assets_directory_has_all_three_programs(assets: Path) -> None:
    assert sorted(path.name for path in assets.iterdir()) == ["etcd", "kube-apiserver", "kubectl"]
    assert all(os.access(path, os.X_OK) for path in assets.iterdir())
    assert ".cache/pilothouse/" in str(assets)


@cases(
    "program, printed",
    {"kube-apiserver": ("kube-apiserver", f"Kubernetes {KUBERNETES_VERSION}+"), "etcd": ("etcd", "etcd Version: 3.")},
)
def test_programs_print_their_version(program: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert stand_in(program, ["--version"]) == 0
    assert capsys.readouterr().out.startswith(printed)


def test_etcd_flags_accept_one_dash(capsys: pytest.CaptureFixture[str]) -> None:
    """As Go's ``flag`` does; fabric8's kube-api-test passes ``-data-dir``."""
    assert stand_in("etcd", ["-data-dir", "/nonexistent/etcd", "-wal-dir", "/nonexistent/wal", "-version"]) == 0
    assert capsys.readouterr().out.startswith("etcd Version: 3.")


def test_kubectl_is_taken_from_the_path(tmp_path: Path) -> None:
    bare = run_pilothouse(tmp_path, "envtest-assets", "--dir", "bare", PATH="/nonexistent")
    missing = subprocess.run(
        [Path(bare.stdout.strip()) / "kubectl"], capture_output=True, text=True, check=False, env={"PATH": os.defpath}
    )
    assert missing.returncode == 1
    assert "https://kubernetes.io/docs/tasks/tools/" in missing.stderr

    own = tmp_path / "bin"
    own.mkdir()
    (own / "kubectl").write_text('#!/bin/sh\necho "kubectl got $*"\n')
    (own / "kubectl").chmod(0o755)
    result = run_pilothouse(tmp_path, "envtest-assets", "--dir", "found", PATH=str(own))
    output = subprocess.run(
        [Path(result.stdout.strip()) / "kubectl", "get", "pods"], capture_output=True, text=True, check=True
    )
    assert output.stdout == "kubectl got get pods\n"


def test_administrator_and_user_certificates_authenticate(environment: Environment) -> None:
    assert environment.request("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})[0] == 201
    environment.add_user("ann", "team")
    code, body = environment.request("GET", "/api/v1/namespaces/shop/pods", user="ann")
    assert code == 403
    assert 'User "ann" cannot list resource "pods"' in body["message"]


def test_definition_is_discovered_and_served(environment: Environment) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert environment.request("GET", f"{path}/widgets.example.com")[0] == 404
    assert environment.request("POST", path, WIDGETS)[0] == 201
    deadline = time.monotonic() + 10
    while True:
        code, body = environment.request("GET", "/apis/example.com/v1")
        if code == 200 and "widgets" in [resource["name"] for resource in body["resources"]]:
            break
        assert time.monotonic() < deadline, body
        time.sleep(0.1)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {}}
    code, body = environment.request("POST", "/apis/example.com/v1/namespaces/default/widgets", widget)
    assert (code, body["metadata"]["generation"]) == (201, 1)
    assert environment.request("DELETE", f"{path}/widgets.example.com")[0] == 200


def test_conversion_webhooks_are_called(environment: Environment) -> None:
    at = {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]}
    converted = definition(
        "Gadget", version(), version("v2", storage=False), conversion={"strategy": "Webhook", "webhook": at}
    )
    assert environment.request("POST", DEFINITIONS, converted)[0] == 201
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one"}}
    gadgets = "namespaces/default/gadgets"
    assert environment.request("POST", f"/apis/example.com/v1/{gadgets}", gadget)[0] == 201
    code, body = environment.request("GET", f"/apis/example.com/v2/{gadgets}/one")
    assert code == 500
    assert body["message"].startswith("conversion webhook for example.com/v1, Kind=Gadget failed: ")


def test_no_controllers_run(environment: Environment) -> None:
    """Suites rely on it: no garbage collection, and a deleted namespace remains Terminating."""
    maps = "/api/v1/namespaces/default/configmaps"
    _code, owner = environment.request("POST", maps, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    environment.request("POST", maps, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    environment.request("DELETE", f"{maps}/owner")
    environment.request("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
    environment.request("DELETE", "/api/v1/namespaces/gone")
    time.sleep(0.5)
    assert environment.request("GET", f"{maps}/owned")[0] == 200
    assert environment.request("GET", "/api/v1/namespaces/gone")[1]["status"]["phase"] == "Terminating"


def test_controllers_collect_garbage_and_finalize_namespaces(tmp_path: Path) -> None:
    with Environment(create_assets(tmp_path, "--controllers", "--dir", "with"), tmp_path) as environment:
        maps = "/api/v1/namespaces/default/configmaps"
        _code, owner = environment.request("POST", maps, {"metadata": {"name": "owner"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        environment.request("POST", maps, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
        environment.request("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
        environment.request("DELETE", f"{maps}/owner")
        environment.request("DELETE", "/api/v1/namespaces/gone")
        until(lambda: environment.request("GET", f"{maps}/owned")[0] == 404, "the dependent is collected")
        until(lambda: environment.request("GET", "/api/v1/namespaces/gone")[0] == 404, "the namespace ends")


def test_both_programs_exit_immediately_on_sigterm(environment: Environment) -> None:
    for program in (environment.server, environment.etcd):
        assert program is not None
        assert program.stop(5) == 0, program.log


def test_restarted_api_server_has_its_data(environment: Environment) -> None:
    environment.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    assert environment.server is not None
    environment.server.kill()
    environment.start_server()
    assert environment.request("GET", "/api/v1/namespaces/kept")[0] == 200


def test_ignored_flags_log_warnings(environment: Environment) -> None:
    assert environment.server is not None
    environment.server.stop()
    environment.start_server("--audit-webhook-mode=batch", "--runtime-config", "api/all=true", "--profiling", "--v=1")
    environment.server.until("Unsupported flag is ignored.*--profiling")
    for name in ("audit-webhook-mode", "runtime-config"):
        assert f'flag="--{name}"' in environment.server.log, environment.server.log


@cases(
    "words, message",
    {
        "without flags": ([], "--service-account-issuer are required"),
        "invalid port": (["--secure-port=http"], 'invalid argument "http" for "--secure-port"'),
        "an unknown admission plugin": (["--disable-admission-plugins=Magic"], "Magic"),
        "an unknown mode": (["--authorization-mode=Magic"], '"Magic" is not a valid mode'),
    },
)
def test_startup_errors_name_the_flag(assets: Path, tmp_path: Path, words: list[str], message: str) -> None:
    required = ["--service-account-issuer=x", "--service-account-signing-key-file=x"] if words else []
    etcd = Environment(assets, tmp_path)
    with etcd:
        etcd.server.stop() if etcd.server else None
        answer = subprocess.run(
            [assets / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd.etcd_port}", *required, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    assert answer.returncode == 1
    assert message in answer.stderr


@pytest.mark.skipif(shutil.which("kubectl") is None and not os.environ.get("KUBEBUILDER_ASSETS"), reason="no kubectl")
def test_kubectl_uses_a_user_certificate(environment: Environment, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl") or str(Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl")
    answer = subprocess.run(
        [
            kubectl,
            f"--server=https://127.0.0.1:{environment.port}",
            f"--certificate-authority={environment.directory}/server-ca.crt",
            f"--client-certificate={environment.directory}/admin.crt",
            f"--client-key={environment.directory}/admin.key",
            "auth",
            "whoami",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": os.defpath},
    )
    assert answer.returncode == 0, answer.stderr
    assert "system:masters" in answer.stdout
