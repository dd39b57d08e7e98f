"""``pilothouse up`` with kubectl: approved certificate requests are signed, and the certificates authenticate."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.certificate_requests import CLIENT, document, key_pem, request_pem
from tests.clients.test_kubectl import KUBECTL
from tests.clients.test_up import Terminal, start
from tests.programs import until

from pilothouse.semantics.certificate_requests import API_SERVER_CLIENT, KUBELET_CLIENT

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Terminal, Path]]:
    directory = tmp_path_factory.mktemp("certificates")
    with start(directory, "--nodes=0", "--authorization-mode=RBAC") as up:
        up.until("is ready")
        yield Terminal(directory), directory
    assert "PRIVATE" not in up.log


def certificate(terminal: Terminal, name: str) -> bytes:
    """What the request was served with, if it was."""
    return base64.b64decode(terminal("get", "csr", name, "-o", "jsonpath={.status.certificate}"))


def whoami(terminal: Terminal, directory: Path, name: str) -> tuple[str, list[str]]:
    """The user that the server authenticates by this request's certificate alone."""
    (directory / "it.crt").write_bytes(certificate(terminal, name))
    (directory / "it.key").write_bytes(key_pem())
    config = json.loads(terminal("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"client-certificate": "it.crt", "client-key": "it.key"}
    (directory / "it.conf").write_text(json.dumps(config))
    words = ("--kubeconfig", str(directory / "it.conf"), "auth", "whoami", "-o", "json")
    info = json.loads(terminal(*words))["status"]["userInfo"]
    return info["username"], sorted(info["groups"])


def test_manually_approved_user_certificate_authenticates(here: tuple[Terminal, Path]) -> None:
    terminal, directory = here
    body = document("jane", request_pem("jane", ["dev"]), API_SERVER_CLIENT, CLIENT, 600)
    terminal("create", "-f", "-", stdin=body)
    assert "Pending" in terminal("get", "csr", "jane")
    assert certificate(terminal, "jane") == b""
    terminal("certificate", "approve", "jane")
    until(lambda: "Approved,Issued" in terminal("get", "csr", "jane"), "it is issued")
    assert whoami(terminal, directory, "jane") == ("jane", ["dev", "system:authenticated"])


def test_denied_request_gets_no_certificate(here: tuple[Terminal, Path]) -> None:
    terminal, _directory = here
    terminal("create", "-f", "-", stdin=document("eve", request_pem("eve", ["dev"]), API_SERVER_CLIENT))
    terminal("certificate", "deny", "eve")
    terminal("create", "-f", "-", stdin=document("wrong", request_pem("x", ["dev"]), KUBELET_CLIENT))
    terminal("certificate", "approve", "wrong")
    until(lambda: "Approved,Failed" in terminal("get", "csr", "wrong"), "what is no kubelet's fails")
    assert certificate(terminal, "eve") == certificate(terminal, "wrong") == b""
    assert "Denied" in terminal("get", "csr", "eve")


def test_auto_approved_kubelet_certificate_authenticates(here: tuple[Terminal, Path]) -> None:
    terminal, directory = here
    rights = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
    for name, role in (("boot", rights), ("ask", "system:node-bootstrapper")):
        terminal("create", "clusterrolebinding", name, f"--clusterrole={role}", "--group=system:bootstrappers")
    joins = ("--as=system:bootstrap:abcdef", "--as-group=system:bootstrappers", "--as-group=system:authenticated")
    terminal("create", "-f", "-", *joins, stdin=document("joins", request_pem("system:node:node-9"), KUBELET_CLIENT))
    until(lambda: "Approved,Issued" in terminal("get", "csr", "joins"), "it is approved and issued")
    assert whoami(terminal, directory, "joins") == ("system:node:node-9", ["system:authenticated", "system:nodes"])
