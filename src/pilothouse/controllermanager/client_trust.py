"""The CAs for client certificates of users and of front proxies.

Files from flags are read at start and reloaded when they change. Without a flag the ConfigMap
``kube-system/extension-apiserver-authentication`` is used, which the API server writes; it is watched, and changes of
its bundles take effect immediately. A missing or empty bundle is ignored (apiserver
``pkg/server/options/authentication.go``, ``dynamiccertificates/configmap_cafile_content.go``, v0.36). ``secure_port``
sets this up, ``authentication`` reads it.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.client.errors import ConfigError
from pilothouse.controllermanager.options import RequestHeader, Serving
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.bounded_files import read_bytes
from pilothouse.runtime import InformerFactory
from pilothouse.serving.client_certificates import Authorities

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
_CHECK_SECONDS = 1.0

_log = Log("authentication")


class ConfigMap(Object, frozen=True):
    """A ConfigMap's data."""

    data: dict[str, str] = {}


CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, ConfigMap)


class RequestHeaderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Front proxies: clients with a certificate of these CAs and an allowed common name may set the user in headers."""

    authorities: Authorities
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    extra_headers_prefix: tuple[str, ...] = ()


class ClientTrust:
    """The current CAs. ``on_change`` is called with all CAs (PEM) after a change."""

    def __init__(self, env: Env, serving: Serving, on_change: Callable[[bytes], object] = lambda _pem: None) -> None:
        """Raises ``ConfigError`` if a file is invalid."""
        self._env = env
        self._files = {
            name: Path(path)
            for name, path in (
                ("--client-ca-file", serving.client_ca_file),
                ("--requestheader-client-ca-file", serving.request_header.client_ca_file),
            )
            if path
        }
        self._settings = serving.request_header
        self._watch_list = serving.watch_list
        self.on_change = on_change
        self.clients: Authorities | None = None
        """The CAs of users' certificates."""
        self.proxies: RequestHeaderConfig | None = None
        self._stamps: dict[str, object] = {}
        self._checked_at = float("-inf")
        for flag, path in self._files.items():
            try:
                self._read(flag, path)
            except OSError as error:
                raise ConfigError(f"{flag} {path}: {error.strerror}") from error
            except ValueError as error:
                raise ConfigError(f"{flag} {path}: {error}") from error

    @property
    def pem(self) -> bytes:
        """All CAs."""
        bundles = [self.clients.pem] if self.clients is not None else []
        bundles += [self.proxies.authorities.pem] if self.proxies is not None else []
        return b"\n".join(bundles)

    @property
    def has_all_files(self) -> bool:
        """Whether both bundles come from files, so that the ConfigMap is not needed."""
        return len(self._files) == 2

    def reload(self) -> None:
        """Reload the files that have changed since they were last read; checks at most once a second."""
        now = self._env.monotonic()
        if not self._files or now - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = now
        for flag, path in self._files.items():
            if _stamp(path) == self._stamps.get(flag):
                continue
            try:
                self._read(flag, path)
            except (OSError, ValueError) as error:
                self._stamps[flag] = _stamp(path)
                _log.error("Client authority could not be reloaded, the old one stays in use", error=error, flag=flag)
            else:
                _log.info("Client authority reloaded", flag=flag, path=path)
                self.on_change(self.pem)

    def _read(self, flag: str, path: Path) -> None:
        self._stamps[flag] = _stamp(path)
        authorities = Authorities(read_bytes(path))
        if flag == "--client-ca-file":
            self.clients = authorities
        else:
            self.proxies = _request_header_config(authorities, self._settings)

    # ConfigMap

    def apply_config_map(self, config: ConfigMap) -> None:
        """Use the ConfigMap's bundles where no file is set. Invalid bundles are logged and ignored."""
        old_settings = self.pem, self._front_proxy_settings()
        if "--client-ca-file" not in self._files and config.data.get("client-ca-file", "").strip():
            try:
                self.clients = Authorities(config.data["client-ca-file"].encode())
            except ValueError as error:
                self._log_failure("client-ca-file", error)
        if "--requestheader-client-ca-file" not in self._files:
            try:
                self.proxies = _request_header_config_from(config.data) or self.proxies
            except ValueError as error:
                self._log_failure("requestheader-client-ca-file", error)
        if (self.pem, self._front_proxy_settings()) != old_settings:
            _log.info("Using the client CA of the cluster", configmap=f"{NAMESPACE}/{NAME}")
            self.on_change(self.pem)

    def _front_proxy_settings(self) -> object:
        proxies = self.proxies
        return None if proxies is None else {f: getattr(proxies, f) for f in proxies.__struct_fields__[1:]}

    def _log_failure(self, part: str, error: ValueError) -> None:
        _log.error(
            "Client authority could not be reloaded, the old one stays in use",
            error=error,
            configmap=f"{NAMESPACE}/{NAME}",
            part=part,
        )

    def watch_config_map(self, client: Client, group: TaskGroup) -> None:
        """Watch the ConfigMap until the group ends."""
        factory = InformerFactory(client, self._env, resync_seconds=0.0, stream_first=self._watch_list)
        informer = factory.informer(CONFIG_MAPS, namespace=NAMESPACE, field_selector=f"metadata.name={NAME}")

        informer.add_handler(
            on_add=lambda config, _initial: self.apply_config_map(config),
            on_update=lambda _old, config: self.apply_config_map(config),
        )
        factory.start(group)


def _stamp(path: Path) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _request_header_config(authorities: Authorities, settings: RequestHeader) -> RequestHeaderConfig:
    return RequestHeaderConfig(
        authorities=authorities,
        allowed_names=settings.allowed_names,
        username_headers=settings.username_headers,
        group_headers=settings.group_headers,
        uid_headers=settings.uid_headers,
        extra_headers_prefix=settings.extra_headers_prefix,
    )


def _request_header_config_from(data: Mapping[str, str]) -> RequestHeaderConfig | None:
    pem = data.get("requestheader-client-ca-file", "")
    if not pem.strip():
        return None

    def deserialize_strings(key: str) -> tuple[str, ...]:
        return msgspec.json.decode(data.get(f"requestheader-{key}") or "[]", type=tuple[str, ...])

    return RequestHeaderConfig(
        authorities=Authorities(pem.encode()),
        allowed_names=deserialize_strings("allowed-names"),
        username_headers=deserialize_strings("username-headers"),
        group_headers=deserialize_strings("group-headers"),
        uid_headers=deserialize_strings("uid-headers"),
        extra_headers_prefix=deserialize_strings("extra-headers-prefix"),
    )
