"""The embedded API server on a port, with its store, certificates, tokens and HTTP server.

For ``pilothouse up``, ``pilothouse apiserver`` and test fixtures over HTTP. What must survive the process (store, CA,
keys, token) is in the data directory; without one it is created in memory at each start.
"""

import base64
import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.apiserver.admission.names import WITHOUT_CONTROLLERS
from pilothouse.apiserver.asgi import Application
from pilothouse.apiserver.authentication.authenticator import StaticTokenAuthenticator, TokenAuthenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.env import Env
from pilothouse.env.bounded_files import read_bytes, read_text
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.private_files import locked, make_private_directory, write_private
from pilothouse.machinery.jws import PrivateKey, load_key, load_public_key, new_key
from pilothouse.serving.exchange import Receive, Scope, Send
from pilothouse.serving.server import Server
from pilothouse.storage import MemoryStore, Record, Retention, Store
from pilothouse.storage.quota import DEFAULT_QUOTA_BYTES
from pilothouse.storage.store import newest_revision

if TYPE_CHECKING:
    from pilothouse.apiserver.audit.filter import Audit
    from pilothouse.apiserver.audit.options import AuditLogOptions
    from pilothouse.apiserver.controllers.cluster_authentication_trust import ClusterAuthenticationTrustController
    from pilothouse.apiserver.encryption_config.opened import OpenedEncryption
    from pilothouse.cel.sandbox import Sandbox
    from pilothouse.controllermanager.feature_gates import FeatureGates
    from pilothouse.plane.plain_http import App
    from pilothouse.serving.certificates import Pair
    from pilothouse.serving.tls import ServerTls
    from pilothouse.serving.worker_thread import WorkerThread
    from pilothouse.storage.etcd.options import EtcdOptions

with lazy_imports():
    from cryptography.hazmat.primitives import serialization

    from pilothouse.apiserver.audit import backend as audit_backend
    from pilothouse.apiserver.audit import checker, reader
    from pilothouse.apiserver.audit import filter as audit_filter
    from pilothouse.apiserver.audit import metrics as audit_metrics
    from pilothouse.apiserver.audit import options as audit_options
    from pilothouse.apiserver.controllers import cluster_authentication_trust, identity_lease
    from pilothouse.apiserver.encryption_config import opened
    from pilothouse.cel import sandbox
    from pilothouse.controllermanager import feature_gates
    from pilothouse.plane import etcd_store, plain_http, process_exposition
    from pilothouse.serving import certificates, tls, worker_thread  # Not needed for plain HTTP.
    from pilothouse.storage import sqlite

ADMIN = Identity("kubernetes-admin", ("system:masters", "system:authenticated"))
DEFAULT_PORT = 6443
_MORE_PORTS = 100
_LEASES = storage_prefix("coordination.k8s.io", "leases")
_LOOPBACK_OR_ALL = ("", "0.0.0.0", "::", "localhost")  # noqa: S104  # compared only


class ServedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a served API server."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: 6443 or the next free port; 0: any free port."""
    data_dir: str = ""
    """If empty, everything is kept in memory."""
    secure: bool = True
    """If false, plain HTTP for tests on loopback: every client is the administrator, except web pages of other origins
    (``plain_http``)."""
    authorization: str = "AlwaysAllow"
    token_auth_file: str = ""
    extra_hosts: tuple[str, ...] = ()
    admission_plugins: tuple[str, ...] = WITHOUT_CONTROLLERS
    """As in ``ServerOptions``."""
    replica_lag: float = 0.0
    """How far behind lists and watches from the cache are, in seconds (``apiserver.lagging``)."""
    history: float = Retention().seconds
    """How long changes are kept, in seconds: a watch from an older resource version gets 410. Changes of Leases are
    kept for at most five minutes, unless this is infinite."""
    history_bytes: int = Retention().total_bytes
    """The size limit of all remembered changes in bytes; one resource may use a quarter of it."""
    quota: int = DEFAULT_QUOTA_BYTES
    """The size limit of all keys and values in bytes; not used with etcd, which has its own quota."""
    certificate: tuple[str, str] | None = None
    """Files with the serving certificate and its key, instead of an issued one."""
    client_authority: str = ""
    """A file with the CAs for client certificates, instead of the server's own."""
    issuer: str = "https://kubernetes.default.svc.cluster.local"
    audiences: tuple[str, ...] = ()
    """The audiences of service account tokens; if empty, the issuer."""
    signing_key: str = ""
    """A file with the key for service account tokens, instead of a generated one."""
    verification_keys: tuple[str, ...] = ()
    """Files with further keys that may have signed service account tokens."""
    anonymous: bool = True
    fsync: bool = True
    """If false, a write is acknowledged before it is on disk. It survives the end of the process, but may be lost if
    the machine crashes."""
    audit: "AuditLogOptions | None" = None
    """The audit options; None for no audit."""
    etcd: "EtcdOptions | None" = None
    """The etcd that the cluster is stored in; ``data_dir`` then has certificates, keys and tokens only."""
    server: ServerOptions = ServerOptions()


class Mounted(Protocol):
    """An application that is served on the same port as the API server."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        ...

    async def stop(self) -> None:
        """End the streamed responses."""
        ...


class ServedApiServer:
    """An API server with its port. Call ``start``, then run ``server.run`` in a task group, and ``stop`` at the end."""

    def __init__(self, env: Env, options: ServedOptions, records: Sequence[Record] = ()) -> None:
        """``records`` are the initial objects of a store in memory."""
        self.env = env
        self.options = options
        directory = Path(options.data_dir) if options.data_dir else None
        encryption = _open_encryption(env, options.etcd)
        self.store: Store = _open_store(env, options, records, encryption)
        core = msgspec.structs.replace(
            options.server, secure_port=options.port or DEFAULT_PORT, admission_plugins=options.admission_plugins
        )
        self.audit = _open_audit(env, options.audit)
        self.server = ApiServer(env, self.store, options=core, audit=self.audit)
        if self.audit is not None:
            self.server.metrics_sources.append(self.audit.metrics.registry.exposition)
        if encryption is not None:
            self._serve_encryption(encryption)
        self._worker: WorkerThread | None = None
        self._sandbox: Sandbox | None = None
        self.server.core.long_work.get_worker = self._get_worker
        self.server.core.long_work.create_sandbox = self._create_sandbox
        self.token = _load_or_create(directory, "admin.token", lambda: secrets.token_urlsafe(32).encode()).decode()
        self.authority = _authority(directory, env) if options.secure else None
        token_authenticators: list[TokenAuthenticator] = [StaticTokenAuthenticator({self.token: ADMIN})]
        if options.token_auth_file:
            token_authenticators.append(StaticTokenAuthenticator.read(read_text(options.token_auth_file)))
        self.handler_chain = HandlerChain(
            self.server,
            address=f"{options.host}:{options.port or DEFAULT_PORT}",
            token_authenticators=token_authenticators,
            authorization=options.authorization,
            anonymous=options.anonymous,
            issuer=options.issuer,
            audiences=options.audiences,
            signing_key=load_key(_read(options.signing_key)) if options.signing_key else _signing_key(directory),
            public_keys=[load_public_key(_read(path)) for path in options.verification_keys],
        )
        self._authentication: ClusterAuthenticationTrustController | None = None
        if self.authority is not None:
            self._authentication = cluster_authentication_trust.ClusterAuthenticationTrustController(
                self.server, self._trusted
            )
            self.server.background["authentication for others"] = self._authentication.run
        self._process_exposition: Callable[[], str] | None = None
        self.server.process_metrics.append(self._process_metrics)
        self._application = Application(env, self.handler_chain)
        self._mounted: dict[str, Mounted] = {}
        self._http = Server(
            self._serve if options.secure else self._plain_http_application(),
            host=options.host,
            port=DEFAULT_PORT if options.port is None else options.port,
            more_ports=_MORE_PORTS if options.port is None else 0,
            tls=self._tls(directory),
            clock=env.clock,
        )

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._http.url

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self._http.port

    def mount(self, path: str, application: "Mounted") -> None:
        """Serve another application at this path and below it. To be called before ``start``."""
        self._mounted[path] = application

    def kubeconfig(self, name: str = "pilothouse") -> dict[str, object]:
        """A kubeconfig document for the administrator."""
        cluster: dict[str, object] = {"server": self.url}
        if self.authority is not None:
            cluster["certificate-authority-data"] = base64.b64encode(self.authority.certificate).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }

    async def start(self) -> None:
        """Listen. Raises ``serving.server.CannotListen``."""
        await self.handler_chain.start()
        if self._authentication is not None:
            # Before the first request: a manager that starts at the same time exits if it does not find the file.
            await self._authentication.sync()
        self.server.set_lag(self.options.replica_lag)
        await self._http.start()
        self.handler_chain.publish(
            "127.0.0.1" if self.options.host in _LOOPBACK_OR_ALL else self.options.host, self.port
        )

    async def stop(self) -> None:
        """Stop listening, end watches cleanly, close the store. Safe to call without ``start``."""
        self.handler_chain.stopping()
        for application in self._mounted.values():
            await application.stop()
        await self._application.stop()
        await self._http.stop()
        await self.server.close()
        if self.audit is not None:
            await self.audit.close()  # last, so that it records everything
        if self._worker is not None:
            self._worker.stop()
        if self._sandbox is not None:
            self._sandbox.stop()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._mounted and scope["type"] == "http":
            path: str = scope["path"]
            for mounted, application in self._mounted.items():
                if path == mounted or path.startswith(f"{mounted}/"):
                    await application(scope, receive, send)
                    return
        await self._application(scope, receive, send)

    def _serve_encryption(self, encryption: "OpenedEncryption") -> None:
        self.server.metrics_sources.append(encryption.metrics.registry.exposition)
        self.server.kms_health = encryption.health
        if encryption.controller is not None:
            self.server.background["encryption configuration"] = encryption.controller.run

    def _process_metrics(self) -> str:
        if self._process_exposition is None:
            gates = _enabled(self.options.server.gates)
            self._process_exposition = process_exposition.process_exposition(lambda: gates)
        return self._process_exposition()

    def _plain_http_application(self) -> "App":
        return plain_http.everyone_is_admin(
            self._application, self.token, (self.options.host, *self.options.extra_hosts)
        )

    def _get_worker(self) -> "WorkerThread":
        self._worker = worker_thread.WorkerThread()
        return self._worker

    def _create_sandbox(self) -> "Sandbox":
        self._sandbox = sandbox.Sandbox()
        return self._sandbox

    @property
    def _trusted(self) -> bytes:
        """The CA that signs clients' certificates."""
        if self.authority is None:
            return b""
        return _read(self.options.client_authority) if self.options.client_authority else self.authority.certificate

    def _tls(self, directory: Path | None) -> "ServerTls | None":
        if self.authority is None:
            return None
        trusted = self._trusted
        if self.options.certificate is not None:
            return tls.ServerTls.load(*self.options.certificate, client_authority=trusted)
        hosts = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        if self.options.host not in {"", "0.0.0.0", "::", *hosts}:  # noqa: S104  # compared only
            hosts.append(self.options.host)
        hosts += self.options.extra_hosts
        now = self.env.now()
        if directory is None:
            pair = certificates.issue_server(self.authority, hosts, now)
        else:
            with locked(directory):
                pair = certificates.load_or_issue_server(directory, "apiserver", self.authority, hosts, now)
        return tls.ServerTls.from_pair(pair, client_authority=trusted)


def _open_store(
    env: Env, options: ServedOptions, records: Sequence[Record], encryption: "OpenedEncryption | None"
) -> Store:
    if options.etcd is not None:
        return _open_etcd(env, options, options.etcd, encryption)
    retention = _retention(options)
    if not options.data_dir:
        return MemoryStore(
            env, retention=retention, records=records, revision=newest_revision(records), quota=options.quota
        )
    return sqlite.SqliteStore.open(env, options.data_dir, fsync=options.fsync, retention=retention, quota=options.quota)


def _retention(options: ServedOptions) -> Retention:
    brief = () if math.isinf(options.history) else ((_LEASES, Retention().seconds),)
    size = options.history_bytes
    return Retention(seconds=options.history, bytes=size // 4, total_bytes=size, brief=brief)


def _open_encryption(env: Env, etcd: "EtcdOptions | None") -> "OpenedEncryption | None":
    """The encryption at rest, None if nothing is encrypted. Raises ``EncryptionConfigError``,
    ``ModuleNotFoundError``."""
    if etcd is None or not etcd.encryption_provider_config:
        return None
    return opened.OpenedEncryption(
        env,
        etcd.encryption_provider_config,
        reload=etcd.encryption_automatic_reload,
        server_id=identity_lease.own_name(),
    )


def _open_etcd(env: Env, options: ServedOptions, etcd: "EtcdOptions", encryption: "OpenedEncryption | None") -> Store:
    """Raises ``ModuleNotFoundError`` without the extra, ``StoreUnavailable`` if no etcd responds."""
    if options.data_dir:
        make_private_directory(Path(options.data_dir))
    at_rest = None if encryption is None else encryption.at_rest
    return etcd_store.open_store(env, etcd, _retention(options), at_rest)


def _open_audit(env: Env, options: "AuditLogOptions | None") -> "Audit | None":
    """The audit backend; None unless the options set a policy and a log. Raises ``AuditLogError``."""
    if options is None or not options.policy_file:
        return None
    try:
        policy = reader.load_policy_from_file(options.policy_file)
    except reader.PolicyError as error:
        raise audit_options.AuditLogError(f"loading audit policy file: {error}") from error
    if not options.path:
        return None
    metrics = audit_metrics.AuditMetrics()
    try:
        backend = audit_backend.LogBackend(env, options, metrics)
    except OSError as error:
        raise audit_options.AuditLogError(f"--audit-log-path {options.path}: {error.strerror}") from error
    return audit_filter.Audit(env, checker.PolicyRuleEvaluator(policy), backend, metrics)


def _read(path: str) -> bytes:
    return read_bytes(path)


def _authority(directory: Path | None, env: Env) -> "Pair":
    if directory is None:
        return certificates.create_authority("pilothouse-ca", env.now())
    with locked(directory):  # servers that share it may start concurrently
        return certificates.load_or_create_authority(directory, "ca", "pilothouse-ca", env.now())


def _signing_key(directory: Path | None) -> PrivateKey | None:
    if directory is None:
        return None

    def new_signing_key() -> bytes:
        return new_key().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    return load_key(_load_or_create(directory, "service-account.key", new_signing_key))


def _load_or_create(directory: Path | None, name: str, make: Callable[[], bytes]) -> bytes:
    """The content of a private file, which is created if it does not exist."""
    if directory is None:
        return make()
    path = directory / name
    with locked(directory):
        if path.exists():
            return path.read_bytes()
        content = make()
        write_private(path, content)
        return content


def _enabled(gates: Iterable[str]) -> "FeatureGates":
    return feature_gates.FeatureGates({name: True for name in gates if name in feature_gates.known_gates()})
