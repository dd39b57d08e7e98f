"""A manager process with ``pilothouse apiserver``: its secure port trusts the same credentials as the server."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.programs import free_port, pilothouse, until
from tests.real.test_secure_port import get

from pilothouse.serving.certificates import Pair, create_authority, issue_client

RS_ONLY = "--controllers=replicaset"
"""The manager's own identity has no more rights than it needs."""

NOW = datetime.datetime.now(datetime.UTC)


class ServerAndManager:
    """A server with RBAC, and a manager that authenticates as kube-controller-manager and delegates authentication and
    authorization to it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Pair.load(directory / "data" / "ca.crt", directory / "data" / "ca.key")
        self.port = free_port()

    def login(self, user: str, *groups: str, authority: Pair | None = None) -> tuple[Path, Path]:
        """A certificate and key of this user."""
        files = self.directory / f"{user}.crt", self.directory / f"{user}.key"
        issue_client(authority or self.authority, user, groups, NOW).save(*files)
        return files

    def kubeconfig(self, user: str) -> Path:
        """A kubeconfig that logs in with a certificate."""
        certificate, key = self.login(user)
        document = yaml.safe_load((self.directory / "admin").read_text())
        document["users"][0]["user"] = {"client-certificate": str(certificate), "client-key": str(key)}
        path = self.directory / "manager.kubeconfig"
        path.write_text(json.dumps(document))
        return path


@pytest.fixture(scope="module")
def server_and_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerAndManager]:
    directory = tmp_path_factory.mktemp("beside")
    words = ["--port=0", "--data-dir=data", "--kubeconfig=admin", "--authorization-mode=RBAC"]
    with pilothouse(directory, "apiserver", *words):
        until((directory / "admin").exists, "the server is up")
        server_and_manager = ServerAndManager(directory)
        kubeconfig = server_and_manager.kubeconfig("system:kube-controller-manager")
        flags = [f"--{prefix}kubeconfig={kubeconfig}" for prefix in ("", "authentication-", "authorization-")]
        with pilothouse(
            directory, "manager", *flags, f"--secure-port={server_and_manager.port}", "--v=2", RS_ONLY
        ) as manager:
            manager.until("Serving securely")
            yield server_and_manager
            assert "extension-apiserver-authentication" in manager.log
            assert "forbidden" not in manager.log


def test_administrator_certificate_is_authorized_for_every_path(server_and_manager: ServerAndManager) -> None:
    assert (
        get(server_and_manager.port, "/metrics", certificate=server_and_manager.login("root", "system:masters"))[0]
        == 200
    )


def test_user_certificate_is_authenticated_and_authorized(server_and_manager: ServerAndManager) -> None:
    status, text = get(server_and_manager.port, "/metrics", certificate=server_and_manager.login("eve"))
    assert status == 403
    assert json.loads(text)["message"] == 'forbidden: User "eve" cannot get path "/metrics"'


def test_certificate_of_another_ca_is_rejected(server_and_manager: ServerAndManager) -> None:
    stranger = server_and_manager.login("mallory", "system:masters", authority=create_authority("other", NOW))
    assert get(server_and_manager.port, "/metrics", certificate=stranger)[0] == 401


def test_administrator_token_is_accepted(server_and_manager: ServerAndManager) -> None:
    token = yaml.safe_load((server_and_manager.directory / "admin").read_text())["users"][0]["user"]["token"]
    assert get(server_and_manager.port, "/metrics", token=token)[0] == 200


def test_anonymous_sees_only_health(server_and_manager: ServerAndManager) -> None:
    assert get(server_and_manager.port, "/metrics")[0] == 403
    until(lambda: get(server_and_manager.port, "/healthz")[0] == 200, "it is healthy")
