"""Loads an ``EncryptionConfiguration`` from a file, and creates its providers.

After apiserver's ``pkg/server/options/encryptionconfig/config.go`` (v0.36), with its errors.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.apiserver.encryption_config.types import (
    API_VERSION,
    DEFINITION,
    KIND,
    LEGACY,
    OTHER_KINDS,
    EncryptionConfigError,
    EncryptionConfiguration,
    Keys,
    Kms,
    Provider,
)
from pilothouse.apiserver.encryption_config.validation import (
    GroupResource,
    decode_secret,
    parse_group_resource,
    timeout_seconds,
    validate_encryption_configuration,
)
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.bodies import DecodeError, decode_body
from pilothouse.machinery.go_text import open_error, quote
from pilothouse.storage.encryption.at_rest import Providers
from pilothouse.storage.encryption.identity import Identity
from pilothouse.storage.encryption.kmsv2.probe import KmsProbe
from pilothouse.storage.encryption.metrics import EncryptionMetrics
from pilothouse.storage.encryption.transformer import PrefixTransformer, PrefixTransformers, Transformer

with lazy_imports():
    from pilothouse.machinery import yaml_text
    from pilothouse.storage.encryption import aes, secretbox
    from pilothouse.storage.encryption.kmsv2 import envelope, service

MAX_BYTES = 1024 * 1024
"""The maximum size of the file."""
MAX_PROVIDERS = 1000
"""The maximum number of keys and plugins in a file. A value that was not written with the first one is tried with
each."""
_SCHEME = "k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go:142"
_KMS_V1 = (
    "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set "
    "--feature-gates=KMSv1=true to use the deprecated KMSv1 feature."
)
_PREFIX = "k8s:enc:"
_NO_FIELD = re.compile(r'(\.keys\[\d+\])\.(?![A-Za-z]{1,20}"$).*(?="$)', re.DOTALL)
"""Longer names of unknown fields may be secrets, and are not printed. The shortest secret has 24 characters."""


class LoadedConfig(msgspec.Struct, frozen=True):
    """The contents of a file, and its hash."""

    providers: Providers
    content_hash: str


def read_hash(path: str) -> str:
    """The hash of a file, for the detection of changes. Raises ``EncryptionConfigError``."""
    return _hash_of(_read(path))


def load_config(env: Env, path: str, metrics: EncryptionMetrics, *, reload: bool) -> LoadedConfig:
    """Load a file and create clients for its plugins, without calling them. Raises ``EncryptionConfigError``."""
    try:
        data = _read(path)
    except EncryptionConfigError as error:
        raise EncryptionConfigError(f"error while parsing file: error while loading file: {error}") from None
    try:
        config = parse_config(data, path, reload=reload)
    except EncryptionConfigError as error:
        raise EncryptionConfigError(f"error while parsing file: {error}") from None
    builder = _Builder(env, metrics)
    try:
        return LoadedConfig(builder.providers(config), _hash_of(data))
    except EncryptionConfigError as error:
        builder.close()
        raise EncryptionConfigError(f"error while building transformers: {error}") from None


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        cause = open_error(path, error)
        raise EncryptionConfigError(
            f"error reading encryption provider configuration file {quote(path)}: {cause}"
        ) from None
    if not data:
        raise EncryptionConfigError(f"encryption provider configuration file {quote(path)} is empty")
    if len(data) > MAX_BYTES:
        raise EncryptionConfigError(
            f"encryption provider configuration file {quote(path)} has more than {MAX_BYTES:,} bytes"
        )
    return data


def _hash_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def parse_config(data: bytes, path: str, *, reload: bool) -> EncryptionConfiguration:
    """Decode and validate a configuration, YAML or JSON. Raises ``EncryptionConfigError``."""
    try:
        config = _decode(data)
    except DecodeError as error:
        raise EncryptionConfigError(
            f"error decoding encryption provider configuration file {quote(path)}: {error}"
        ) from None
    all_errors = list(dict.fromkeys(map(str, validate_encryption_configuration(config, reload=reload))))
    if all_errors:
        raise EncryptionConfigError(all_errors[0] if len(all_errors) == 1 else f"[{', '.join(all_errors)}]")
    count = sum(
        _count_keys(provider)
        for resource_configuration in config.resources
        for provider in resource_configuration.providers
    )
    if count > MAX_PROVIDERS:
        raise EncryptionConfigError(
            f"the configuration has {count:,} keys and KMS providers, and at most {MAX_PROVIDERS:,} are taken"
        )
    return config


def _count_keys(provider: Provider) -> int:
    return max(1, sum(len(keys.keys) for keys in (provider.aesgcm, provider.aescbc, provider.secretbox) if keys))


def _decode(data: bytes) -> EncryptionConfiguration:
    """Decode strictly: unknown and duplicate fields are errors. Raises ``DecodeError``, ``EncryptionConfigError``."""
    try:
        document = yaml_text.read_yaml(data)
    except yaml_text.YamlError as error:
        raise DecodeError(f"error converting YAML to JSON: {error}") from None
    value = document.value
    if not isinstance(value, dict):
        raise DecodeError("couldn't get version/kind; it is no map with apiVersion and kind")
    api_version, kind = _type_of(value)
    if (api_version, kind) not in ((API_VERSION, KIND), LEGACY):
        if api_version == API_VERSION and kind in OTHER_KINDS:
            raise EncryptionConfigError(f"got unexpected config type: {API_VERSION}, Kind={kind}")
        raise DecodeError(f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"')
    decoded = decode_body(msgspec.json.encode(value), DEFINITION)
    if strict_errors := [*document.repeated, *decoded.strict_errors]:
        # ``{name: a, secret:c2VjcmV0}`` has a secret in the name of a field.
        redacted = (_NO_FIELD.sub(r"\1.REDACTED", error) for error in strict_errors)
        raise DecodeError(f"strict decoding error: {', '.join(redacted)}")
    config = msgspec.convert(decoded.document, EncryptionConfiguration)
    return _with_defaults(config)


def _type_of(value: dict[str, Any]) -> tuple[str, str]:
    type_meta = []
    for field in ("apiVersion", "kind"):
        text = value.get(field) or ""
        if not isinstance(text, str):
            raise DecodeError(f"couldn't get version/kind; {field} is no string")
        type_meta.append(text)
    for field, text in (("Kind", type_meta[1]), ("apiVersion", type_meta[0])):
        if not text:
            # Upstream prints the whole file here, secrets included.
            raise DecodeError(f"Object '{field}' is missing")
    return type_meta[0], type_meta[1]


def _with_defaults(config: EncryptionConfiguration) -> EncryptionConfiguration:
    def defaulted(provider: Provider) -> Provider:
        kms = provider.kms
        return provider if kms is None else msgspec.structs.replace(provider, kms=kms.with_defaults())

    return EncryptionConfiguration(
        tuple(
            msgspec.structs.replace(
                resource_configuration, providers=tuple(map(defaulted, resource_configuration.providers))
            )
            for resource_configuration in config.resources
        )
    )


class _Builder:
    """Creates the providers of one configuration."""

    def __init__(self, env: Env, metrics: EncryptionMetrics) -> None:
        self._env = env
        self._metrics = metrics
        self._probes: list[KmsProbe] = []
        self._timeouts = 0.0

    def providers(self, config: EncryptionConfiguration) -> Providers:
        """The providers by resource. Raises ``EncryptionConfigError``."""
        by_resource: dict[GroupResource, list[PrefixTransformer]] = {}
        for resource_configuration in config.resources:
            transformers = [self._provider(provider) for provider in resource_configuration.providers]
            for resource in resource_configuration.resources:
                group_resource = parse_group_resource(resource)
                for wildcard in ((group_resource[0], "*"), ("*", "*")):
                    if wildcard in by_resource:
                        raise EncryptionConfigError(
                            f"resource {quote(_format_resource(group_resource))} is masked by earlier rule "
                            f"{quote(_format_resource(wildcard))}"
                        )
                by_resource.setdefault(group_resource, []).extend(transformers)
        return Providers(
            {
                resource: PrefixTransformers("no matching prefix found", transformers, self._metrics.transformed)
                for resource, transformers in by_resource.items()
            },
            self._probes,
            close_after=2 * self._timeouts,
        )

    def close(self) -> None:
        """Close the created providers, after an error."""
        for probe in self._probes:
            probe.service.close()

    def _provider(self, provider: Provider) -> PrefixTransformer:
        if provider.aesgcm is not None:
            return self._key_transformers("aesgcm", provider.aesgcm, lambda key: aes.Gcm(key), "AES")
        if provider.aescbc is not None:
            return self._key_transformers("aescbc", provider.aescbc, lambda key: aes.Cbc(key), "AES")
        if provider.secretbox is not None:
            return self._key_transformers(
                "secretbox", provider.secretbox, lambda key: secretbox.Secretbox(key), "Secretbox"
            )
        if provider.kms is not None:
            return self._plugin_transformer(provider.kms)
        return PrefixTransformer(b"", Identity())

    def _key_transformers(
        self, name: str, keys: Keys, new_transformer: Callable[[bytes], Transformer], go_name: str
    ) -> PrefixTransformer:
        by_name: Sequence[PrefixTransformer] = [
            PrefixTransformer(f"{key.name}:".encode(), new_transformer(decode_secret(key.secret))) for key in keys.keys
        ]
        no_match = f"no matching key was found for the provided {go_name} transformer"
        return PrefixTransformer(
            f"{_PREFIX}{name}:v1:".encode(), PrefixTransformers(no_match, by_name, self._metrics.transformed)
        )

    def _plugin_transformer(self, kms: Kms) -> PrefixTransformer:
        if kms.api_version == "v1":
            raise EncryptionConfigError(_KMS_V1)
        timeout = timeout_seconds(kms)
        plugin = service.GrpcKmsService(kms.endpoint, kms.name, timeout, self._metrics)
        probe = KmsProbe(self._env, kms.name, plugin, self._metrics)
        self._probes.append(probe)
        self._timeouts += timeout
        transformer = envelope.EnvelopeTransformer(self._env, kms.name, plugin, probe.current_state, self._metrics)
        return PrefixTransformer(f"{_PREFIX}kms:v2:{kms.name}:".encode(), transformer)


def _format_resource(resource: GroupResource) -> str:
    group, name = resource
    if resource == ("", "*"):
        return "*."
    return f"{name}.{group}" if group else name
