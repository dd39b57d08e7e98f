"""Kubeconfig files: reading, merging, and picking one context out of them.

Used by ``connect``. The rules are those of client-go's ``tools/clientcmd`` (v0.36): of several files the first that has
an entry takes precedence, paths are relative to their file, data takes precedence over files. Every error names the
file, the entry, the reason and the solution. docs/design/kubeconfig.md has the reasons for our own loader.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.client.errors import ConfigError
from pilothouse.client.exec_plugin import API_VERSIONS, ExecSettings
from pilothouse.client.tls import TlsSettings
from pilothouse.env.bounded_files import read_bytes
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.nulls import without_nulls

with lazy_imports():
    import yaml  # 20 ms that a program with in-cluster configuration does not need to spend

    from pilothouse.machinery import yaml_loader


class _Wire(msgspec.Struct, rename="kebab", frozen=True):
    pass


class Extension(_Wire, frozen=True):
    """Something of a program's own."""

    name: str = ""
    extension: Any = None


class Cluster(_Wire, frozen=True):
    """Where an API server is and how to trust it."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[Extension, ...] = ()


class ExecVariable(_Wire, frozen=True):
    """One environment variable for a plugin."""

    name: str
    value: str


class Exec(msgspec.Struct, rename="camel", frozen=True):
    """A program that issues credentials."""

    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    interactive_mode: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False


class User(_Wire, frozen=True):
    """A user and its credentials."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: Any = None
    act_as: str = msgspec.field(default="", name="as")
    act_as_uid: str = msgspec.field(default="", name="as-uid")
    act_as_groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    act_as_user_extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="as-user-extra")


class Context(_Wire, frozen=True):
    """A user on a cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Wire, frozen=True):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(_Wire, frozen=True):
    name: str
    user: User = User()


class _NamedContext(_Wire, frozen=True):
    name: str
    context: Context = Context()


class _File(_Wire, frozen=True):
    api_version: str = msgspec.field(default="v1", name="apiVersion")
    kind: str = "Config"
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


class Kubeconfig(msgspec.Struct, frozen=True):
    """One file, or several merged. Each entry keeps the path of its file."""

    files: tuple[Path, ...]
    current_context: str
    clusters: Mapping[str, tuple[Path, Cluster]]
    users: Mapping[str, tuple[Path, User]]
    contexts: Mapping[str, tuple[Path, Context]]

    def select(self, context: str = "", *, server: str = "") -> "Selected":
        """The context of that name, or the current one, checked. ``server`` replaces the cluster's (``--master``)."""
        files = ", ".join(map(str, self.files))
        name = context or self.current_context
        if not name:
            raise ConfigError(
                f"{files}: no current-context is set; choose one (kubectl config use-context){_choices(self.contexts)}"
            )
        if name not in self.contexts:
            raise ConfigError(f"{files}: context {name!r} does not exist{_choices(self.contexts)}")
        path, current = self.contexts[name]
        if not current.cluster:
            raise ConfigError(f"{path}: context {name!r} names no cluster")
        if current.cluster not in self.clusters:
            raise ConfigError(
                f"{path}: context {name!r} names the cluster {current.cluster!r}, which does not exist"
                f"{_choices(self.clusters)}"
            )
        if current.user and current.user not in self.users:
            raise ConfigError(
                f"{path}: context {name!r} names the user {current.user!r}, which does not exist{_choices(self.users)}"
            )
        cluster_path, cluster = self.clusters[current.cluster]
        user_path, user = self.users[current.user] if current.user else (path, User())
        if server:
            # client-go clientcmd overrides (v0.36): the flag replaces the address, but not CA and user.
            cluster = msgspec.structs.replace(cluster, server=server)
        if not cluster.server:
            raise ConfigError(f"{cluster_path}: cluster {current.cluster!r} has no server")
        return Selected(
            cluster=cluster,
            user=user,
            namespace=current.namespace,
            context=name,
            cluster_origin=f"{cluster_path}: cluster {current.cluster!r}",
            user_origin=f"{user_path}: user {current.user!r}",
            cluster_folder=cluster_path.parent,
            user_folder=user_path.parent,
        )


class Selected(msgspec.Struct, frozen=True):
    """One context's parts. The origins name them in messages."""

    cluster: Cluster
    user: User
    namespace: str
    context: str
    cluster_origin: str
    user_origin: str
    cluster_folder: Path
    user_folder: Path

    def tls(self) -> TlsSettings:
        """The cluster's trust and the user's certificate, with paths resolved and data decoded."""
        cluster, user = self.cluster, self.user
        return TlsSettings(
            ca_data=_data(cluster.certificate_authority_data, self.cluster_origin, "certificate-authority-data"),
            ca_file=_path(cluster.certificate_authority, self.cluster_folder),
            certificate_data=_data(user.client_certificate_data, self.user_origin, "client-certificate-data"),
            certificate_file=_path(user.client_certificate, self.user_folder),
            key_data=_data(user.client_key_data, self.user_origin, "client-key-data"),
            key_file=_path(user.client_key, self.user_folder),
            server_name=cluster.tls_server_name,
            insecure_skip_verify=cluster.insecure_skip_tls_verify,
            origin=f"{self.cluster_origin}, {self.user_origin.rpartition(': ')[2]}",
        )

    def token_file(self) -> str:
        """The token file's path, or ""."""
        return _path(self.user.token_file, self.user_folder)

    def exec_settings(self) -> ExecSettings | None:
        """The validated plugin, or None."""
        plugin = self.user.exec
        if plugin is None:
            return None
        origin = f"{self.user_origin}: exec"
        if not plugin.command:
            raise ConfigError(f"{origin}: command is missing")
        if plugin.api_version not in API_VERSIONS:
            raise ConfigError(
                f"{origin}: apiVersion {plugin.api_version!r} is not supported; update the plugin and write one of"
                f" {', '.join(API_VERSIONS)}"
            )
        mode = plugin.interactive_mode or ("IfAvailable" if plugin.api_version.endswith("v1beta1") else "")
        if mode not in {"Never", "IfAvailable", "Always"}:
            raise ConfigError(f"{origin}: interactiveMode must be Never, IfAvailable or Always, not {mode!r}")
        # A name without a separator is looked up in PATH; other paths are relative to the file.
        command = _path(plugin.command, self.user_folder) if os.sep in plugin.command else plugin.command
        return ExecSettings(
            command=command,
            api_version=plugin.api_version,
            args=plugin.args,
            env={variable.name: variable.value for variable in plugin.env},
            interactive_mode=mode,
            install_hint=plugin.install_hint,
            cluster=self._cluster_info() if plugin.provide_cluster_info else None,
            origin=origin,
        )

    def _cluster_info(self) -> dict[str, Any]:
        cluster = self.cluster
        info: dict[str, Any] = {"server": cluster.server}
        if cluster.tls_server_name:
            info["tls-server-name"] = cluster.tls_server_name
        if cluster.insecure_skip_tls_verify:
            info["insecure-skip-tls-verify"] = True
        authority = cluster.certificate_authority_data
        if not authority and cluster.certificate_authority:
            path = _path(cluster.certificate_authority, self.cluster_folder)
            try:
                authority = base64.b64encode(read_bytes(path)).decode()
            except OSError as error:
                raise ConfigError(
                    f"{self.cluster_origin}: cannot read the certificate authority {path}: {error.strerror or error}"
                ) from error
        if authority:
            info["certificate-authority-data"] = authority
        if cluster.proxy_url:
            info["proxy-url"] = cluster.proxy_url
        for extension in cluster.extensions:
            if extension.name == "client.authentication.k8s.io/exec":
                info["config"] = extension.extension
        return info

    def impersonation(self) -> list[tuple[str, str]]:
        """The headers of the user's ``as`` fields."""
        user = self.user
        if not user.act_as:
            if user.act_as_uid or user.act_as_groups or user.act_as_user_extra:
                raise ConfigError(
                    f"{self.user_origin}: as-uid, as-groups and as-user-extra say nothing without as; name a user"
                )
            return []
        headers = [("Impersonate-User", user.act_as)]
        if user.act_as_uid:
            headers.append(("Impersonate-Uid", user.act_as_uid))
        headers += [("Impersonate-Group", group) for group in user.act_as_groups]
        for key, values in user.act_as_user_extra.items():
            headers += [(f"Impersonate-Extra-{_header_name(key)}", value) for value in values]
        return headers


def load(paths: Sequence[Path], *, explicit: bool) -> Kubeconfig:
    """Read and merge files; the first takes precedence. A missing one is skipped, unless it was specified explicitly
    (``explicit``)."""
    read: list[tuple[Path, _File]] = []
    for path in paths:
        try:
            content = read_bytes(path)
        except FileNotFoundError:
            if explicit:
                raise ConfigError(f"{path}: there is no such kubeconfig file") from None
            continue
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the kubeconfig: {error.strerror or error}") from error
        read.append((path, _parse(path, content)))
    if not read:
        raise ConfigError(
            f"no kubeconfig at {', '.join(map(str, paths))}; give another with --kubeconfig or KUBECONFIG"
        )
    clusters: dict[str, tuple[Path, Cluster]] = {}
    users: dict[str, tuple[Path, User]] = {}
    contexts: dict[str, tuple[Path, Context]] = {}
    current = ""
    for path, file in read:
        current = current or file.current_context
        for cluster in file.clusters:
            clusters.setdefault(cluster.name, (path, cluster.cluster))
        for user in file.users:
            users.setdefault(user.name, (path, user.user))
        for context in file.contexts:
            contexts.setdefault(context.name, (path, context.context))
    return Kubeconfig(tuple(path for path, _ in read), current, clusters, users, contexts)


def _parse(path: Path, content: bytes) -> _File:
    try:
        document = yaml.load(content, Loader=yaml_loader.BoundedLoader)  # noqa: S506  # a safe loader
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: the kubeconfig is not YAML: {yaml_loader.yaml_error_text(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: the kubeconfig is not YAML: it is not UTF-8 text") from error
    if document is None:
        return _File()
    try:
        file = msgspec.convert(without_nulls(document), _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: the kubeconfig is malformed: {error}") from error
    if file.kind != "Config" or file.api_version != "v1":
        raise ConfigError(f"{path}: the kind is {file.kind} of {file.api_version}; a kubeconfig has Config of v1")
    return file


def _data(text: str, origin: str, field: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"{origin}: {field} is not base64: {error}") from error


def _path(text: str, folder: Path) -> str:
    return str(folder / text) if text else ""


def _choices(entries: Mapping[str, object]) -> str:
    return f"; there is {', '.join(entries)}" if entries else "; the file has none"


_TOKEN = frozenset("!#$&'*+-.^_`|~")


def _header_name(key: str) -> str:
    # client-go transport/round_trippers.go headerKeyEscape (v0.36): characters that are invalid in a header name are
    # escaped as %XX.
    return "".join(
        character
        if character.isascii() and (character.isalnum() or character in _TOKEN)
        else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in key
    )
