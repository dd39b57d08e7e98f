"""The manager as a process in front of an API server: connection, secure port, and the manager between them.

``cli`` calls ``run`` with the options that flags gave. The secure port is up before leadership is won and stays up on a
standby, as upstream's.
"""

import ssl
from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import View
from pilothouse.client import Client, default_user_agent
from pilothouse.client.connect import find
from pilothouse.client.errors import ApiError, ConfigError
from pilothouse.controllermanager.delegation import Authenticator, Authorizer, User
from pilothouse.controllermanager.endpoints import Endpoints
from pilothouse.controllermanager.health import Health
from pilothouse.controllermanager.identities import PROGRAM, RemoteClients
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import Options, Serving
from pilothouse.env import Env, Log
from pilothouse.runtime.client_metrics import RestClientMetrics
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.metrics import Registry
from pilothouse.serving.certificates import issue_server, make_authority
from pilothouse.serving.peer import peer_of
from pilothouse.serving.server import Server
from pilothouse.serving.tls import ServerTls

_DELEGATED_QPS = 200.0
_DELEGATED_BURST = 400
_AUTHENTICATION_CONFIG = "extension-apiserver-authentication"


class _ConfigMap(View, frozen=True):
    data: dict[str, str] = {}


_CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, _ConfigMap)


async def run(env: Env, options: Options, descriptors: Sequence[Descriptor]) -> None:
    """Manage until cancelled.

    Raises ``ConfigError``, ``ConnectionError``, ``OSError`` or ``runtime.LeadershipLost``.
    """
    metrics = Registry()
    connection = find(kubeconfig=options.kubeconfig, master=options.master)
    clients = RemoteClients(
        env,
        connection,
        use_service_accounts=options.use_service_account_credentials,
        metrics=RestClientMetrics(metrics),
    )
    health, readiness = Health(), Health()
    manager = Manager(env, options, clients, descriptors, metrics=metrics, health=health, readiness=readiness)
    try:
        async with _secure_port(env, options, health, readiness, metrics):
            await manager.run()
    finally:
        await clients.close()


@asynccontextmanager
async def _secure_port(
    env: Env, options: Options, health: Health, readiness: Health, metrics: Registry
) -> AsyncIterator[None]:
    serving = options.serving
    if serving.port == 0:
        yield
        return
    authenticating = _delegate(env, serving.authentication_kubeconfig)
    authorizing = _delegate(env, serving.authorization_kubeconfig)
    authority = await _client_authority(authenticating, serving)
    endpoints = Endpoints(
        health=health,
        readiness=readiness,
        metrics=metrics,
        authenticator=Authenticator(env, authenticating, cache_seconds=serving.authentication_cache_seconds),
        authorizer=Authorizer(
            env,
            authorizing,
            always_allow_paths=serving.always_allow_paths,
            authorized_seconds=serving.authorized_cache_seconds,
            unauthorized_seconds=serving.unauthorized_cache_seconds,
        ),
        config=lambda: msgspec.json.encode({"kubecontrollermanager.config.k8s.io": msgspec.to_builtins(options)}),
        certificate_user=_certificate_user,
    )
    server = Server(
        endpoints, host=serving.bind_address, port=serving.port, tls=_tls(env, serving, authority), clock=env.clock
    )
    await server.start()
    Log("serving").info("Serving securely", address=f"{serving.bind_address}:{server.port}")
    try:
        yield
    finally:
        await server.stop()
        for client in (authenticating, authorizing):
            if client is not None:
                await client.transport.close()


def _delegate(env: Env, kubeconfig: str) -> Client | None:
    """The client that asks about others. Without a kubeconfig nothing is delegated."""
    if not kubeconfig:
        return None
    transport = find(kubeconfig=kubeconfig).transport(env)
    agent = default_user_agent(PROGRAM)
    return Client(transport, env, qps=_DELEGATED_QPS, burst=_DELEGATED_BURST, user_agent=agent)


async def _client_authority(client: Client | None, serving: Serving) -> bytes:
    """Who signs client certificates: the file, else what the API server says in its ConfigMap."""
    if serving.client_ca_file:
        return _read(serving.client_ca_file, "--client-ca-file")
    if client is None or serving.authentication_skip_lookup:
        return b""
    try:
        found = await client.get(_CONFIG_MAPS, _AUTHENTICATION_CONFIG, "kube-system")
    except (ApiError, ConnectionError, TimeoutError) as error:
        message = f"unable to load configmap kube-system/{_AUTHENTICATION_CONFIG}: {error}"
        if not serving.authentication_tolerate_lookup_failure:
            raise ConfigError(
                f"{message}; --authentication-skip-lookup or --authentication-tolerate-lookup-failure go on without it"
            ) from error
        Log("authentication").warning(message)
        return b""
    return found.data.get("client-ca-file", "").encode()


def _read(path: str, flag: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{flag} {path}: {error.strerror}") from error


def _tls(env: Env, serving: Serving, authority: bytes) -> ServerTls:
    try:
        if serving.cert_file:
            return ServerTls.load(serving.cert_file, serving.key_file, client_authority=authority)
        hosts = ["localhost", "127.0.0.1"]
        if serving.bind_address not in {"0.0.0.0", "::"}:  # noqa: S104  # compared only
            hosts.append(serving.bind_address)
        own = make_authority(f"{PROGRAM}-ca", env.now())
        if serving.cert_dir:
            certificate, key = (Path(serving.cert_dir) / f"{PROGRAM}.{ending}" for ending in ("crt", "key"))
            if not (certificate.exists() and key.exists()):
                Path(serving.cert_dir).mkdir(parents=True, exist_ok=True)
                issue_server(own, hosts, env.now()).save(certificate, key)
            return ServerTls.load(certificate, key, client_authority=authority)
        return ServerTls.from_pair(issue_server(own, hosts, env.now()), client_authority=authority)
    except (OSError, ValueError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate of the secure port can't be used: {error}") from error


def _certificate_user(scope: MutableMapping[str, Any]) -> User | None:
    peer = peer_of(scope)
    return User(username=peer.common_name, groups=peer.organizations) if peer is not None else None
