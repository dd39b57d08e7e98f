"""A real etcd and kube-apiserver for tests, from the programs that ``KUBEBUILDER_ASSETS`` points at.

Use the ``real_cluster`` fixture (tests/conftest.py). One instance serves the whole session: create a namespace per test
(``cluster.namespace()``) and a user per role under test (``cluster.user(...)``). No controllers run, so namespaces
stay Terminating and no service accounts are created.
"""

import atexit
import base64
import contextlib
import ctypes
import datetime
import functools
import http.client
import ipaddress
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.connections import Connections

ADMIN_TOKEN = "admin-token"

GOGC = "400"
"""Garbage collection in Go programs starts when the heap has grown fivefold instead of twofold: kube-apiserver then
needs 550 MB instead of 320, and a kubectl session an eighth less CPU time."""

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def missing_programs() -> str:
    """Why no real cluster can be started here, or ""."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not assets:
        return "KUBEBUILDER_ASSETS is not set: it names a folder with etcd and kube-apiserver"
    absent = [name for name in ("etcd", "kube-apiserver") if not os.access(Path(assets) / name, os.X_OK)]
    return f"KUBEBUILDER_ASSETS={assets} has no {' and no '.join(absent)}" if absent else ""


@functools.cache
def minor_version(program: str = "kube-apiserver") -> int:
    """The minor version of a program in ``KUBEBUILDER_ASSETS``. Most tests do not depend on it: v1.20 and v1.36 are
    tried."""
    path = Path(os.environ["KUBEBUILDER_ASSETS"]) / program
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=30)
    version = re.search(r"v1\.(\d+)\.", done.stdout)
    assert version is not None, done.stdout
    return int(version[1])


def without_insecure_port(program: str) -> tuple[str, ...]:
    """The flag that closes the insecure port of a program, which v1.24 has removed."""
    return ("--port=0",) if minor_version(program) < 24 else ()


class RequestFailed(AssertionError):
    """The API server rejected a request of the test setup."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body}")
        self.status = status


class RealCluster:
    """A running etcd and kube-apiserver. Everything they write is in ``directory``, which ``stop`` deletes."""

    def __init__(self, extra_flags: Sequence[str] = (), *, service_accounts: bool = False) -> None:
        """``service_accounts`` enables the admission plugin: pods then require an existing ServiceAccount."""
        self.assets = Path(os.environ["KUBEBUILDER_ASSETS"])
        self.directory = Path(tempfile.mkdtemp(prefix="pilothouse-real-"))
        self.port = 0
        self._extra_flags = tuple(extra_flags)
        self._service_accounts = service_accounts
        self._processes: list[subprocess.Popen[bytes]] = []
        self._names = itertools.count(1)
        self._write_keys()
        self._connections = Connections(self.ca_file, seconds=30.0)
        atexit.register(self.stop)

    # Processes

    def start(self) -> Self:
        """Start both programs and wait until the API server is ready. Retries with other ports if one is in use."""
        errors = []
        for _attempt in range(3):
            try:
                self._start_once()
            except RuntimeError as error:
                errors.append(str(error))
                self._stop_processes()
            else:
                return self
        raise RuntimeError("\n".join(errors))

    def stop(self) -> None:
        """Stop both programs and delete the directory. Idempotent."""
        atexit.unregister(self.stop)
        self._stop_processes()
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop_api_server(self, *, kill: bool = False) -> None:
        """Stop the API server and keep etcd running, as in a restart or an outage. ``kill`` as in a crash."""
        self._connections.close()
        process = self._processes.pop()
        if kill:
            process.kill()
        _end(process)
        process.wait()

    @contextlib.contextmanager
    def frozen_api_server(self) -> Iterator[None]:
        """Stop the API server (SIGSTOP) within a ``with`` block: it accepts connections and sends no responses."""
        process = self._processes[-1]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def start_api_server(self) -> None:
        """Start the API server (again), on the same port, and wait until it is ready."""
        directory = self.directory
        flags = [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--service-cluster-ip-range=10.0.0.0/16",
            f"--cert-dir={directory}",
            f"--tls-cert-file={directory}/server.crt",
            f"--tls-private-key-file={directory}/server.key",
            f"--client-ca-file={directory}/ca.crt",
            f"--service-account-key-file={directory}/sa.pub",
            f"--service-account-signing-key-file={directory}/sa.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={directory}/tokens.csv",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            *(() if self._service_accounts else ("--disable-admission-plugins=ServiceAccount",)),
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=2000",
            *self._extra_flags,
        ]
        self._spawn("kube-apiserver", flags)
        self._wait("kube-apiserver", self._ready)

    def _start_once(self) -> None:
        self._etcd_port, peer_port, self.port = _free_ports(3)
        data = tempfile.mkdtemp(prefix="etcd-", dir=self.directory)
        client_url, peer_url = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{peer_port}"
        self._spawn(
            "etcd",
            [
                f"--data-dir={data}",
                f"--listen-client-urls={client_url}",
                f"--advertise-client-urls={client_url}",
                f"--listen-peer-urls={peer_url}",
                f"--initial-advertise-peer-urls={peer_url}",
                f"--initial-cluster=default={peer_url}",
                "--unsafe-no-fsync=true",
            ],
        )
        self._wait("etcd", self._etcd_listens)
        self.start_api_server()

    def _spawn(self, program: str, flags: Sequence[str]) -> None:
        with self._log_file(program).open("wb") as log:
            # A killed test run must not leave servers running (Linux; elsewhere only atexit). They exit with the thread
            # that started them, so start a cluster from the main thread.
            self._processes.append(
                subprocess.Popen(
                    [str(self.assets / program), *flags],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                    env={**os.environ, "GOGC": GOGC},
                    preexec_fn=_die_with_parent if _LIBC is not None else None,  # noqa: PLW1509  # one call, no locks
                )
            )

    def _wait(self, program: str, ready: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        process = self._processes[-1]
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = self._log_file(program).read_text(errors="replace")[-2000:]
                state = f"exited with {process.returncode}" if process.poll() is not None else "did not become ready"
                raise RuntimeError(f"{program} {state}:\n{tail}")
            time.sleep(0.05)

    def _etcd_listens(self) -> bool:
        with contextlib.suppress(OSError), contextlib.closing(_http(self._etcd_port)) as connection:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False

    def _ready(self) -> bool:
        # /readyz includes the bootstrap objects (roles, priority levels) through post-start hooks, but not the system
        # namespaces, which a separate loop creates a moment later.
        with contextlib.suppress(OSError, http.client.HTTPException):
            return all(self._exchange("GET", path)[0] == 200 for path in ("/readyz", "/api/v1/namespaces/default"))
        return False

    def _stop_processes(self) -> None:
        self._connections.close()
        while self._processes:
            _end(self._processes.pop())

    def _log_file(self, program: str) -> Path:
        return self.directory / f"{program}.log"

    # Access

    @property
    def server(self) -> str:
        """``https://127.0.0.1:PORT``"""
        return f"https://127.0.0.1:{self.port}"

    @property
    def etcd_url(self) -> str:
        """The URL of etcd, for another API server on it."""
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def ca_file(self) -> Path:
        """The CA that signed the server's certificate and signs users'."""
        return self.directory / "ca.crt"

    @property
    def ca_key_file(self) -> Path:
        """The CA's key."""
        return self.directory / "ca.key"

    @property
    def service_account_key_file(self) -> Path:
        """The value of ``--service-account-private-key-file``."""
        return self.directory / "sa.key"

    @property
    def admin_token(self) -> str:
        """A token of group system:masters."""
        return ADMIN_TOKEN

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The process ids of etcd and the API server, while they run."""
        return tuple(process.pid for process in self._processes)

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file for the administrator. It is rewritten on each access, since the port may have changed."""
        return self._write_kubeconfig("admin", {"token": ADMIN_TOKEN})

    def user(
        self,
        name: str,
        *,
        groups: Sequence[str] = (),
        cluster_roles: Sequence[str] = (),
        rules: Sequence[Mapping[str, Sequence[str]]] = (),
        lifetime: datetime.timedelta = datetime.timedelta(days=1),
    ) -> Path:
        """A kubeconfig for a user of this name, with a client certificate, bound to these ClusterRoles in all
        namespaces.

        ``rules`` (as in a ClusterRole: apiGroups, resources, verbs, ...) become an additional role. Another call for
        the same name adds bindings. Negative ``lifetime`` gives an expired certificate.
        """
        certificate, key = self.issue(name, groups, lifetime)
        roles = list(cluster_roles)
        if rules:
            role = f"test-{next(self._names)}"
            self.request(
                "POST",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                {"metadata": {"name": role}, "rules": list(rules)},
            )
            roles.append(role)
        for role in roles:
            self.request(
                "POST",
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                {
                    "metadata": {"name": f"test-{next(self._names)}"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
                },
            )
        credentials = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
        return self._write_kubeconfig(f"user-{next(self._names)}", credentials)

    def namespace(self, prefix: str = "test") -> str:
        """Create a namespace for a test, and return its name."""
        name = f"{prefix}-{os.getpid()}-{next(self._names)}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def request(self, method: str, path: str, body: object = None, *, content_type: str = "application/json") -> Any:
        """Send a request as administrator, and return the decoded body. Raises ``RequestFailed`` if it is rejected."""
        status, text = self._exchange(method, path, body, content_type)
        if not 200 <= status < 300:
            raise RequestFailed(method, path, status, text)
        try:
            return json.loads(text)
        except ValueError:
            return text

    def try_request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request as administrator; returns status and decoded body."""
        status, text = self._exchange(method, path, body)
        return status, json.loads(text)

    def kubectl(self, *arguments: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
        """Run kubectl and return its output. Fails with its standard error."""
        done = subprocess.run(
            [str(self.assets / "kubectl"), "--kubeconfig", str(kubeconfig or self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "HOME": str(self.directory)},
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def _exchange(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": content_type}
        return self._connections.request(self.port, method, path, None if body is None else json.dumps(body), headers)

    def _write_kubeconfig(self, name: str, credentials: Mapping[str, str]) -> Path:
        path = self.directory / f"{name}.kubeconfig"
        new = path.with_suffix(".new")  # a program that is starting may read the old one
        new.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {"name": "real", "cluster": {"server": self.server, "certificate-authority": str(self.ca_file)}}
                    ],
                    "users": [{"name": name, "user": dict(credentials)}],
                    "contexts": [{"name": "real", "context": {"cluster": "real", "user": name}}],
                    "current-context": "real",
                }
            )
        )
        new.chmod(0o600)
        return new.replace(path)

    # Keys

    def _write_keys(self) -> None:
        directory = self.directory
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pilothouse-test-ca")])
        ca = (
            _certificate(ca_name, ca_name, ca_key, datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        self._ca, self._ca_key = ca, ca_key
        (directory / "ca.crt").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
        _write_secret(directory / "ca.key", _pem(ca_key))
        names: list[x509.GeneralName] = [
            x509.DNSName("localhost"),
            x509.DNSName("kubernetes.default.svc"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
        ]
        certificate, key = self.issue("kube-apiserver", (), datetime.timedelta(days=1), names)
        (directory / "server.crt").write_bytes(certificate)
        _write_secret(directory / "server.key", key)
        service_account_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        _write_secret(directory / "sa.key", _pem(service_account_key))
        (directory / "sa.pub").write_bytes(
            service_account_key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        _write_secret(directory / "tokens.csv", f'{ADMIN_TOKEN},admin,admin,"system:masters"\n'.encode())

    def issue(
        self,
        name: str,
        groups: Sequence[str],
        lifetime: datetime.timedelta,
        server_names: Sequence[x509.GeneralName] = (),
    ) -> tuple[bytes, bytes]:
        """A certificate of the cluster's CA and its key, PEM: of a user, or with ``server_names`` of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server_names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _certificate(subject, self._ca.subject, key, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._ca_key.public_key()), critical=False
            )
        )
        if server_names:
            builder = builder.add_extension(x509.SubjectAlternativeName(server_names), critical=False)
        certificate = builder.sign(self._ca_key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


@contextlib.contextmanager
def running(extra_flags: Sequence[str] = ()) -> Iterator[RealCluster]:
    """A separate cluster for a ``with`` block. Prefer the shared one (fixture ``real_cluster``)."""
    cluster = RealCluster(extra_flags)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, lifetime: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    end = now + lifetime
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - datetime.timedelta(hours=1))
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _http(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=5)


def _free_ports(count: int) -> list[int]:
    # All sockets are open at the same time, so that the ports differ.
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)  # kube-apiserver takes a few seconds to let its requests end
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
