"""From flags and environment to a transport.

Programs call ``connect`` with the values of their flags. The result of the search is a ``ConnectionInfo``, which can be
inspected or changed before a transport is created from it.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.client import in_cluster
from pilothouse.client.credentials import Anonymous, Credentials, TokenFile, basic, bearer, read_token
from pilothouse.client.endpoint import Endpoint, Proxy, parse_endpoint, parse_proxy, proxy_from_environment
from pilothouse.client.errors import ConfigError
from pilothouse.client.exec_plugin import ExecPlugin
from pilothouse.client.kubeconfig import Selected, load
from pilothouse.client.metrics import ConnectionMetrics
from pilothouse.client.remote import RemoteTransport
from pilothouse.client.tls import TlsSettings, make_context, with_ca_data
from pilothouse.env import Env, Log


class ConnectionInfo(msgspec.Struct, frozen=True):
    """An API server and an identity."""

    endpoint: Endpoint
    tls: TlsSettings
    login: Callable[[Env], Credentials]
    proxy: Proxy | None = None
    headers: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    """The context's namespace, "" if it has none."""
    context: str = ""
    """The name of the kubeconfig's context; "" if there is none."""
    origin: str = ""
    """The source of the configuration, for the log."""

    @property
    def title(self) -> str:
        """The cluster, for messages: by its context, else by its address."""
        return f"context {self.context}" if self.context else f"{self.endpoint.host}:{self.endpoint.port}"

    @property
    def server(self) -> str:
        """The server with its address and where that is from, for errors."""
        context = f"context {self.context} of " if self.context else ""
        return f"{self.endpoint} ({context}{self.origin})"

    def log(self, log: Log) -> None:
        """Log which server a program uses: without ``--kubeconfig`` that may be another one than its user expects."""
        values: dict[str, Any] = {"source": self.origin}
        if self.context:
            values["context"] = self.context
        log.info("Using the API server", server=str(self.endpoint), **values)

    def with_current_authority(self) -> "ConnectionInfo":
        """The same, with the current content of the CA file: later changes of the file have no effect.

        Raises ``ConfigError``.
        """
        return msgspec.structs.replace(self, tls=with_ca_data(self.tls))

    def transport(
        self, env: Env, *, credentials: Credentials | None = None, metrics: ConnectionMetrics | None = None
    ) -> RemoteTransport:
        """Create a transport to this server, with this identity or the given one. Raises ``ConfigError`` for invalid
        certificates."""
        tls, headers = self.tls, self.headers
        if credentials is not None:
            headers = ()
            # With our client certificate another user's token would be ignored, because the server checks the
            # certificate first.
            tls = TlsSettings(
                ca_data=tls.ca_data,
                ca_file=tls.ca_file,
                server_name=tls.server_name,
                insecure_skip_verify=tls.insecure_skip_verify,
                origin=tls.origin,
            )
        if self.endpoint.tls:
            make_context(tls, env.now())  # a bad certificate is the start's error, not the first request's
        credentials = credentials or self.login(env)
        if isinstance(credentials, ExecPlugin):
            credentials.metrics = metrics
        return RemoteTransport(
            self.endpoint,
            env,
            tls=tls,
            credentials=credentials,
            proxy=self.proxy,
            headers=headers,
            metrics=metrics,
        )


def connect(
    env: Env,
    *,
    kubeconfig: str = "",
    context: str = "",
    master: str = "",
    environ: Mapping[str, str] = os.environ,
) -> RemoteTransport:
    """The transport for the flags; see ``find``. Sends nothing."""
    return find(kubeconfig=kubeconfig, context=context, master=master, environ=environ).transport(env)


def find(
    *, kubeconfig: str = "", context: str = "", master: str = "", environ: Mapping[str, str] = os.environ
) -> ConnectionInfo:
    """Where to connect, and as whom.

    In this order: the file ``kubeconfig`` (``--kubeconfig``), ``master`` alone (``--master``, without credentials), the
    files in KUBECONFIG, the in-cluster configuration, ``~/.kube/config``. ``master`` also overrides the server of a
    kubeconfig. ``context`` is one of a kubeconfig, so with it the in-cluster configuration is not used. Raises
    ``ConfigError``.
    """
    if kubeconfig:
        return _from_files([Path(kubeconfig)], context, master, environ, explicit=True)
    if master:
        if context:
            raise ConfigError(
                f"context {context!r} is one of a kubeconfig: give --kubeconfig FILE, with or without --master"
            )
        return _from_master(master, environ)
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        return _from_files(listed, context, "", environ, explicit=False)
    if in_cluster.is_in_cluster(environ) and not context:
        return in_pod(environ)
    home = environ.get("HOME", "")
    default = Path(home) / ".kube" / "config"
    if home and _may_exist(default):
        return _from_files([default], context, "", environ, explicit=True)
    raise ConfigError(
        "no way to an API server: give --kubeconfig FILE or --master URL, set KUBECONFIG, or run in a pod; "
        "`pilothouse create cluster` makes a cluster in the background, `pilothouse kubeconfig --merge` adds the "
        "context of one to ~/.kube/config"
    )


def _may_exist(path: Path) -> bool:
    """True also if that cannot be determined: reading then fails with the reason."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def in_pod(environ: Mapping[str, str] = os.environ, folder: Path = in_cluster.FOLDER) -> ConnectionInfo:
    """The pod's own configuration."""
    origin = "in-cluster configuration"
    token = folder / "token"
    if not token.is_file():
        raise ConfigError(
            f"{origin}: there is no {token}; is automountServiceAccountToken off? Turn it on, or give --kubeconfig"
        )
    endpoint = parse_endpoint(in_cluster.server(environ), origin)
    return ConnectionInfo(
        endpoint=endpoint,
        tls=TlsSettings(ca_file=str(folder / "ca.crt"), origin=origin),
        login=lambda env: TokenFile(str(token), env, origin),
        proxy=proxy_from_environment(endpoint, environ),
        namespace=in_cluster.namespace(folder, environ),
        origin=origin,
    )


def _from_master(master: str, environ: Mapping[str, str]) -> ConnectionInfo:
    endpoint = parse_endpoint(master, "--master")
    return ConnectionInfo(
        endpoint=endpoint,
        tls=TlsSettings(origin="--master"),
        login=lambda _env: Anonymous(),
        proxy=proxy_from_environment(endpoint, environ),
        origin="--master",
    )


def _from_files(
    paths: list[Path], context: str, server: str, environ: Mapping[str, str], *, explicit: bool
) -> ConnectionInfo:
    selected = load(paths, explicit=explicit).select(context, server=server)
    endpoint = parse_endpoint(selected.cluster.server, selected.cluster_origin)
    proxy = (
        parse_proxy(selected.cluster.proxy_url, selected.cluster_origin)
        if selected.cluster.proxy_url
        else proxy_from_environment(endpoint, environ)
    )
    return ConnectionInfo(
        endpoint=endpoint,
        tls=selected.tls(),
        login=_credentials_of(selected),
        proxy=proxy,
        headers=tuple(selected.impersonation()),
        namespace=selected.namespace,
        context=selected.context,
        origin=", ".join(map(str, paths)),
    )


def _credentials_of(selected: Selected) -> Callable[[Env], Credentials]:
    user, origin = selected.user, selected.user_origin
    if user.auth_provider is not None:
        name = user.auth_provider.get("name", "") if isinstance(user.auth_provider, dict) else ""
        raise ConfigError(
            f"{origin}: auth-provider {name!r} is not supported (Kubernetes removed most of them in 1.26); use an exec"
            " plugin or a token"
        )
    plugin = selected.exec_settings()
    has_certificate = bool(user.client_certificate or user.client_certificate_data)
    if (user.token or user.token_file) and (user.username or user.password):
        # clientcmd validation.go (v0.36)
        raise ConfigError(f"{origin}: more than one way to log in; leave either the token or username and password")
    # A token file is read repeatedly, and has precedence over a token (client-go transport.New, v0.36).
    token_file = selected.token_file()
    if token_file:
        read_token(Path(token_file), origin)  # a file that is not there is the start's error
        return lambda env: TokenFile(token_file, env, origin)
    if user.token:
        token = bearer(user.token, origin)
        return lambda _env: token
    if user.username or user.password:
        login = basic(user.username, user.password, origin)
        return lambda _env: login
    if plugin is not None and not has_certificate:
        return lambda env: ExecPlugin(plugin, env)
    return lambda _env: Anonymous()
