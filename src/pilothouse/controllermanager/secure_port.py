"""The secure port of the manager, put together: certificate, client authority, who is asked about callers.

``app`` opens it before leadership is won. Client certificates are believed when the authority of ``--client-ca-file``
signed them, or else the one that the API server names in ConfigMap ``extension-apiserver-authentication``. That
ConfigMap is read again once a minute: an authority that is new in it counts from then on, one that has left it until
the next start (upstream follows both ways, through a watch).
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import View
from pilothouse.client import Client, default_user_agent
from pilothouse.client.connect import find, in_pod
from pilothouse.client.errors import ApiError, ConfigError
from pilothouse.client.in_cluster import is_in_cluster
from pilothouse.controllermanager.delegation import Authenticator, Authorizer, User
from pilothouse.controllermanager.endpoints import Endpoints
from pilothouse.controllermanager.health import Health
from pilothouse.controllermanager.identities import PROGRAM
from pilothouse.controllermanager.options import Serving
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.runtime.api_server import WAIT_SECONDS
from pilothouse.runtime.metrics import Registry
from pilothouse.serving.certificates import Pair, issue_server, make_authority
from pilothouse.serving.peer import peer_of
from pilothouse.serving.server import Server
from pilothouse.serving.tls import ServerTls

_DELEGATED_QPS = 200.0
_DELEGATED_BURST = 400
_AUTHENTICATION_CONFIG = "extension-apiserver-authentication"
_LOOK_SECONDS = 60.0

_log = Log("authentication")


class _ConfigMap(View, frozen=True):
    data: dict[str, str] = {}


_CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, _ConfigMap)


@asynccontextmanager
async def secure_port(
    env: Env,
    serving: Serving,
    *,
    health: Health,
    readiness: Health,
    metrics: Registry,
    config: Callable[[], bytes],
) -> AsyncIterator[None]:
    """Serve for the length of the block. Raises ``ConfigError`` or ``serving.server.CannotListen`` when it can't."""
    if serving.port == 0:
        yield
        return
    authenticating = _delegate(env, serving.authentication_kubeconfig)
    authorizing = _delegate(env, serving.authorization_kubeconfig)
    looks_up = not serving.client_ca_file and not serving.authentication_skip_lookup
    try:
        authority = await _client_authority(env, authenticating, serving)
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
            config=config,
            certificate_user=_certificate_user,
        )
        tls = _tls(env, serving, authority)
        server = Server(endpoints, host=serving.bind_address, port=serving.port, tls=tls, clock=env.clock)
        await server.start()
        Log("serving").info("Serving securely", address=f"{serving.bind_address}:{server.port}")
        try:
            async with TaskGroup("secure port") as group:
                if authenticating is not None and looks_up:
                    following = _follow(authenticating, authority, tls)
                    group.start(following, name="client authority")
                yield
                group.cancel()
        finally:
            await server.stop()
    finally:
        for client in (authenticating, authorizing):
            if client is not None:
                await client.close()


def _delegate(env: Env, kubeconfig: str) -> Client | None:
    """The client that asks about others. Without a kubeconfig, and not in a pod either, nothing is delegated."""
    if not kubeconfig and not is_in_cluster(os.environ):
        return None
    transport = (find(kubeconfig=kubeconfig) if kubeconfig else in_pod()).transport(env)
    agent = default_user_agent(PROGRAM)
    return Client(transport, env, qps=_DELEGATED_QPS, burst=_DELEGATED_BURST, user_agent=agent)


async def _client_authority(env: Env, client: Client | None, serving: Serving) -> bytes:
    """Who signs client certificates: the file, else what the API server says in its ConfigMap.

    An API server that is not up yet is waited for as long as the manager itself would wait.
    """
    if serving.client_ca_file:
        return _read(serving.client_ca_file, "--client-ca-file")
    if client is None or serving.authentication_skip_lookup:
        return b""
    deadline = env.monotonic() + WAIT_SECONDS
    while True:
        try:
            return await _look_up(client)
        except (ApiError, ConnectionError, TimeoutError) as error:
            message = f"unable to load configmap kube-system/{_AUTHENTICATION_CONFIG}: {error}"
            if serving.authentication_tolerate_lookup_failure:
                _log.warning(message)
                return b""
            if isinstance(error, ApiError) or env.monotonic() >= deadline:
                raise ConfigError(
                    f"{message}; --authentication-skip-lookup or --authentication-tolerate-lookup-failure go on without"
                ) from error
            _log.info("Waiting for the API server", reason=error)
        await asyncio.sleep(1.0)


async def _look_up(client: Client) -> bytes:
    found = await client.get(_CONFIG_MAPS, _AUTHENTICATION_CONFIG, "kube-system")
    return found.data.get("client-ca-file", "").encode()


async def _follow(client: Client, known: bytes, tls: ServerTls) -> None:
    """Believe authorities that the ConfigMap gains while we run."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            found = await _look_up(client)
            if found and found != known:
                tls.trust(found)
                known = found
                _log.info("Client authority reloaded", configmap=f"kube-system/{_AUTHENTICATION_CONFIG}")
        except (ApiError, OSError, ValueError) as error:
            _log.error("Client authority could not be reloaded, the old one stays in use", error=error)


def _read(path: str, flag: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{flag} {path}: {error.strerror}") from error


def _tls(env: Env, serving: Serving, authority: bytes) -> ServerTls:
    try:
        if serving.cert_file:
            return ServerTls.load(serving.cert_file, serving.key_file, client_authority=authority)
        if not serving.cert_dir:
            return ServerTls.from_pair(_self_signed(env, serving), client_authority=authority)
        directory = Path(serving.cert_dir)
        certificate, key = (directory / f"{PROGRAM}.{ending}" for ending in ("crt", "key"))
        if not (certificate.exists() and key.exists()):
            directory.mkdir(parents=True, exist_ok=True)
            _self_signed(env, serving).save(certificate, key)
        return ServerTls.load(certificate, key, client_authority=authority)
    except OSError as error:
        raise ConfigError(
            f"the certificate of the secure port can't be used: {error.filename}: {error.strerror}; see --cert-dir,"
            " --tls-cert-file and --tls-private-key-file"
        ) from error
    except ValueError as error:
        raise ConfigError(f"the certificate of the secure port can't be used: {error}") from error


def _self_signed(env: Env, serving: Serving) -> Pair:
    hosts = ["localhost", "127.0.0.1"]
    if serving.bind_address not in {"0.0.0.0", "::", *hosts}:  # noqa: S104  # compared only
        hosts.append(serving.bind_address)
    return issue_server(make_authority(f"{PROGRAM}-ca", env.now()), hosts, env.now())


def _certificate_user(scope: MutableMapping[str, Any]) -> User | None:
    peer = peer_of(scope)
    return User(username=peer.common_name, groups=peer.organizations) if peer is not None else None
