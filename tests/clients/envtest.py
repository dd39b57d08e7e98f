"""Uses a directory of assets like controller-runtime's envtest (v0.24.1), with its steps, flags and timeouts.

``Environment`` writes the certificates that envtest writes, starts ``etcd`` and ``kube-apiserver`` with the arguments
that it passes, polls what it polls, logs in as it does, and stops them as it does.
"""

import http.client
import json
import re
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.connections import insecure_context
from tests.programs import Program, environment, free_port

from pilothouse.env import Env
from pilothouse.serving.certificates import create_authority, issue_client, issue_server

START_SECONDS = STOP_SECONDS = 20.0
POLL_SECONDS = 0.1


class Environment:
    """A control plane from a directory of assets. A ``with`` block starts and stops it."""

    def __init__(self, assets: Path, directory: Path) -> None:
        self.assets = assets
        self.directory = directory
        self.cert_dir = directory / "certs"
        self.data_dir = directory / "data"
        for item in (self.cert_dir, self.data_dir):
            item.mkdir()
        self.etcd_port, self.peer_port, self.port = free_port(), free_port(), free_port()
        self.etcd: Program | None = None
        self.server: Program | None = None
        self._write_certificates()

    def __enter__(self) -> Self:
        self.start_etcd()
        self.start_server()
        return self

    def __exit__(self, *_error: object) -> None:
        for program in (self.server, self.etcd):
            if program is not None and program.code is None:
                program.stop(STOP_SECONDS)

    # Processes

    def has_flag(self, program: str, flag: str) -> bool:
        """Whether ``--help`` lists the flag; the program must exit with 0."""
        result = subprocess.run(
            [self.assets / program, "--help"], capture_output=True, text=True, check=True, timeout=20
        )
        return re.search(rf"(?m)^\s*--{flag}\b", result.stdout + result.stderr) is not None

    def start_etcd(self) -> None:
        """Start etcd and wait until it is healthy."""
        url = f"http://127.0.0.1:{self.etcd_port}"
        words = [
            f"--advertise-client-urls={url}",
            f"--data-dir={self.data_dir}",
            f"--listen-client-urls={url}",
            f"--listen-peer-urls=http://127.0.0.1:{self.peer_port}",
        ]
        if self.has_flag("etcd", "unsafe-no-fsync"):
            words.append("--unsafe-no-fsync=true")
        self.etcd = self._started("etcd", words)
        self._poll(self.etcd, lambda: http.client.HTTPConnection("127.0.0.1", self.etcd_port, timeout=2), "/health")

    def start_server(self, *more: str) -> None:
        """Start the API server, and wait until it is healthy and the default namespace exists."""
        assert not self.has_flag("kube-apiserver", "insecure-port")
        words = [
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.cert_dir}",
            f"--client-ca-file={self.cert_dir}/client-cert-auth-ca.crt",
            "--disable-admission-plugins=ServiceAccount",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--secure-port={self.port}",
            f"--service-account-issuer=https://127.0.0.1:{self.port}/",
            f"--service-account-key-file={self.cert_dir}/sa-signer.crt",
            f"--service-account-signing-key-file={self.cert_dir}/sa-signer.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            *more,
        ]
        self.server = self._started("kube-apiserver", words)
        self._poll(self.server, self._insecure, "/healthz")
        self.add_user("admin", "system:masters")
        deadline = time.monotonic() + 5
        while self.request("GET", "/api/v1/namespaces/default")[0] != 200:
            assert time.monotonic() < deadline, "no default namespace within 5 s"
            time.sleep(0.05)

    def _started(self, name: str, words: list[str]) -> Program:
        return Program(self.directory, name, [str(self.assets / name), *words], environment=environment(self.directory))

    def _poll(self, program: Program, connect: Any, path: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert program.code is None, f"{program.name} exited before it was ready:\n{program.log}"
            assert time.monotonic() < deadline, f"{program.name} is not ready within {START_SECONDS} s:\n{program.log}"
            connection = connect()
            try:
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass  # not listening yet
            finally:
                connection.close()
            time.sleep(POLL_SECONDS)

    # Users

    def add_user(self, name: str, *groups: str) -> None:
        """A client certificate like that of ``AddUser``."""
        issue_client(self._client_authority, name, groups, Env().now()).save(*self._user_files(name))

    def request(self, method: str, path: str, body: Any = None, user: str = "admin") -> tuple[int, Any]:
        """Send a request with the user's certificate, verifying the server's certificate."""
        context = ssl.create_default_context(cafile=str(self.directory / "server-ca.crt"))
        context.load_cert_chain(*map(str, self._user_files(user)))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        try:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def _insecure(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=2, context=insecure_context())

    def _user_files(self, name: str) -> tuple[Path, Path]:
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    def _write_certificates(self) -> None:
        now = Env().now()
        authority = create_authority("envtest-environment", now)
        (self.directory / "server-ca.crt").write_bytes(authority.certificate)
        hosts = ["localhost", "kubernetes.default.svc", "127.0.0.1"]
        issue_server(authority, hosts, now).save(self.cert_dir / "apiserver.crt", self.cert_dir / "apiserver.key")
        self._client_authority = create_authority("client-cert-auth", now)
        (self.cert_dir / "client-cert-auth-ca.crt").write_bytes(self._client_authority.certificate)
        signer = rsa.generate_private_key(65537, 2048)
        private = signer.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        public = signer.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self.cert_dir / "sa-signer.key").write_bytes(private)
        (self.cert_dir / "sa-signer.crt").write_bytes(public)
