"""Sets up the manager's secure port: certificates, authentication, authorization.

``app`` opens it before leader election. Requests are handled in ``endpoints``, authenticated in ``client_trust`` and
``authentication``, and delegated to the API server in ``delegation``.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pilothouse.client import Client, default_user_agent
from pilothouse.client.connect import find, in_pod
from pilothouse.client.errors import ApiError, ConfigError, Forbidden, NotFound
from pilothouse.client.in_cluster import is_in_cluster
from pilothouse.controllermanager.authentication import Authenticator
from pilothouse.controllermanager.cipher_suites import openssl_ciphers
from pilothouse.controllermanager.client_trust import CONFIG_MAPS, NAME, NAMESPACE, ClientTrust
from pilothouse.controllermanager.curves import openssl_groups
from pilothouse.controllermanager.delegation import Authorizer, TokenReviews
from pilothouse.controllermanager.endpoints import Endpoints, Pages
from pilothouse.controllermanager.identities import PROGRAM
from pilothouse.controllermanager.options import Serving
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.runtime.api_server import WAIT_SECONDS
from pilothouse.runtime.client_metrics import RestClientMetrics
from pilothouse.serving import openssl
from pilothouse.serving.certificates import Pair, create_authority, issue_server
from pilothouse.serving.server import Server
from pilothouse.serving.tls import Files, Policy, ServerTls

_DELEGATED_QPS = 200.0
_DELEGATED_BURST = 400
_ROLE_BINDING_HINT = (
    f"; usually fixed by 'kubectl create rolebinding -n {NAMESPACE} ROLEBINDING_NAME"
    " --role=extension-apiserver-authentication-reader --user=THE_USER'"
)

_log = Log("authentication")


@asynccontextmanager
async def secure_port(
    env: Env, serving: Serving, pages: Pages, metrics: RestClientMetrics | None = None
) -> AsyncIterator[None]:
    """Serve during the block. Raises ``ConfigError`` or ``serving.server.CannotListen``. ``metrics`` count the
    delegated requests."""
    if serving.port == 0:
        yield
        return
    authenticating = _delegate(env, serving, serving.authentication_kubeconfig, metrics)
    authorizing = _delegate(env, serving, serving.authorization_kubeconfig, metrics)
    try:
        trust = ClientTrust(env, serving)
        delegates = authenticating if not (serving.authentication_skip_lookup or trust.has_all_files) else None
        if delegates is not None:
            await _read_authentication_config(env, delegates, trust, serving)
        endpoints = Endpoints(
            pages,
            _authenticator(env, serving, trust, authenticating),
            Authorizer(
                env,
                authorizing,
                always_allow_paths=serving.always_allow_paths,
                authorized_seconds=serving.authorized_cache_seconds,
                unauthorized_seconds=serving.unauthorized_cache_seconds,
            ),
        )
        tls = _tls(env, serving, trust.pem)
        trust.on_change = tls.trust
        server = Server(
            endpoints,
            host=serving.bind_address,
            port=serving.port,
            tls=tls,
            clock=env.clock,
            shares_port=serving.permit_port_sharing,
        )
        await server.start()
        Log("serving").info("Serving securely", address=f"{serving.bind_address}:{server.port}")
        try:
            async with TaskGroup("secure port") as group:
                if delegates is not None:
                    trust.watch_config_map(delegates, group)
                yield
                group.cancel()
        finally:
            await server.stop()
    finally:
        for client in (authenticating, authorizing):
            if client is not None:
                await client.close()


def _authenticator(env: Env, serving: Serving, trust: ClientTrust, client: Client | None) -> Authenticator:
    tokens = None
    if client is not None:
        tokens = TokenReviews(env, client, cache_seconds=serving.authentication_cache_seconds)
    return Authenticator(env, trust, tokens, certificate_uids=serving.certificate_uids)


def _delegate(env: Env, serving: Serving, kubeconfig: str, metrics: RestClientMetrics | None) -> Client | None:
    """The client for delegated authentication and authorization. Without a kubeconfig, and outside of a pod, nothing is
    delegated."""
    if not kubeconfig and not is_in_cluster(os.environ):
        return None
    connection = find(kubeconfig=kubeconfig) if kubeconfig else in_pod()
    if not serving.authority_rotation:
        connection = connection.with_current_authority()
    transport = connection.transport(env, metrics=metrics)
    if metrics is not None:
        metrics.transport_given(is_new=True)
    agent = default_user_agent(PROGRAM)
    return Client(transport, env, qps=_DELEGATED_QPS, burst=_DELEGATED_BURST, user_agent=agent, metrics=metrics)


async def _read_authentication_config(env: Env, client: Client, trust: ClientTrust, serving: Serving) -> None:
    """Read the cluster's part of the trust once, before the port opens.

    A missing ConfigMap configures nothing, and ``ClientTrust.follow`` applies it when it is created. Only its request
    header part is required: upstream reads the client CA by the watch alone
    (``DelegatingAuthenticationOptions.ApplyTo``, apiserver v0.36). If the API server is not ready yet, it is waited for
    as long as the manager itself would wait.
    """
    tolerant = serving.authentication_tolerate_lookup_failure or bool(serving.request_header.client_ca_file)
    deadline = env.monotonic() + WAIT_SECONDS
    while True:
        try:
            trust.apply_config_map(await client.get(CONFIG_MAPS, NAME, NAMESPACE))
            return
        except NotFound:
            _log.info(
                "The cluster has no client CAs; client certificates are not accepted until it has",
                configmap=f"{NAMESPACE}/{NAME}",
            )
            return
        except (ApiError, ConnectionError, TimeoutError) as error:
            message = f"unable to load configmap {NAMESPACE}/{NAME}: {error}"
            if isinstance(error, Forbidden):
                message += _ROLE_BINDING_HINT
            if tolerant:
                _log.warning(f"{message}; continuing without authentication configuration until it can be read")
                return
            if isinstance(error, ApiError) or env.monotonic() >= deadline:
                raise ConfigError(
                    f"{message}; --authentication-skip-lookup or --authentication-tolerate-lookup-failure "
                    "continue without"
                ) from error
            _log.info("Waiting for the API server", reason=error)
        await asyncio.sleep(1.0)


_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


def _policy(serving: Serving) -> Policy:
    minimum = _VERSIONS.get(serving.tls_min_version)
    if minimum is None:
        Log("serving").warning("TLS below 1.2 is not served, whatever is requested", requested=serving.tls_min_version)
        minimum = ssl.TLSVersion.TLSv1_2
    ciphers = openssl_ciphers(serving.tls_cipher_suites)
    if serving.tls_cipher_suites and not ciphers:
        minimum = ssl.TLSVersion.TLSv1_3  # no TLS 1.2 cipher suite is left
    return Policy(minimum_version=minimum, ciphers=ciphers, groups=_groups(serving))


def _groups(serving: Serving) -> tuple[str, ...]:
    desired = openssl_groups(serving.tls_curve_preferences)
    # If groups cannot be configured, ``ServerTls`` reports it.
    supported = openssl.known_groups(desired) if desired else ()
    if supported is None or supported == desired:
        return desired
    left_out = ", ".join(name for name in desired if name not in supported)
    if not supported:
        # Serving with others would violate the flag.
        raise ConfigError(f"--tls-curve-preferences: {ssl.OPENSSL_VERSION} supports none of {left_out}")
    Log("serving").warning("OpenSSL does not support all allowed key exchanges", without=left_out)
    return supported


def _tls(env: Env, serving: Serving, authority: bytes) -> ServerTls:
    sni_files = [Files(Path(sni.cert_file), Path(sni.key_file), sni.names) for sni in serving.sni_certificates]
    try:
        default = _default_certificate(env, serving)
        return ServerTls(default, client_authority=authority, policy=_policy(serving), named=sni_files)
    except OSError as error:
        # Without files none of our flags is involved: no temporary directory is needed.
        reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        raise ConfigError(
            f"the certificate of the secure port can't be used: {reason}; see --cert-dir, --tls-cert-file and"
            " --tls-private-key-file"
        ) from error
    except ValueError as error:
        raise ConfigError(f"the certificate of the secure port can't be used: {error}") from error


def _default_certificate(env: Env, serving: Serving) -> Pair | Files:
    """The certificate from flags, the one in ``--cert-dir`` (created if missing), or one that is only in memory."""
    if serving.cert_file:
        return Files(Path(serving.cert_file), Path(serving.key_file))
    if not serving.cert_dir:
        return _self_signed(env, serving)
    directory = Path(serving.cert_dir)
    certificate, key = (directory / f"{PROGRAM}.{ending}" for ending in ("crt", "key"))
    if not (certificate.exists() and key.exists()):
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)  # as client-go's ``WriteKey``
        _self_signed(env, serving).save(certificate, key)
    return Files(certificate, key)


def _self_signed(env: Env, serving: Serving) -> Pair:
    hosts = ["localhost", "127.0.0.1"]
    if serving.bind_address not in {"0.0.0.0", "::", *hosts}:  # noqa: S104  # compared only
        hosts.append(serving.bind_address)
    return issue_server(create_authority(f"{PROGRAM}-ca", env.now()), hosts, env.now())
