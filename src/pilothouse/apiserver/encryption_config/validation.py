"""Validation of an ``EncryptionConfiguration``. Pure.

After apiserver's ``pkg/apis/apiserver/validation/validation_encryption.go`` (v0.36), with its messages. Where upstream
prints a provider with its keys, the keys are left out, because the message is logged.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

from pilothouse.apiserver.encryption_config.types import EncryptionConfiguration, Key, Keys, Kms, Provider
from pilothouse.apiserver.field_errors import ErrorList, FieldError, invalid, required, struct_value
from pilothouse.machinery.durations import DurationError, format_duration, parse_duration
from pilothouse.machinery.go_text import quote

_AES_SIZES, _SECRETBOX_SIZES = (16, 24, 32), (32,)
_NOT_A_REST_RESOURCE = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")
_GO_NAMES = (
    ("AESGCM", "aesgcm"),
    ("AESCBC", "aescbc"),
    ("Secretbox", "secretbox"),
    ("Identity", "identity"),
    ("KMS", "kms"),
)
GroupResource = tuple[str, str]


def parse_group_resource(text: str) -> GroupResource:
    """``deployments.apps`` as group and resource (``schema.ParseGroupResource``)."""
    resource, _, group = text.partition(".")
    return group, resource


def validate_encryption_configuration(config: EncryptionConfiguration, *, reload: bool) -> ErrorList:
    """The errors in a configuration. ``reload``: whether the file is reloaded while the server runs."""
    if not config.resources:
        return [_at_least_one("resources", "resources")]
    errors: ErrorList = []
    names: set[str] = set()
    for index, resource_configuration in enumerate(config.resources):
        resources, providers = f"resources[{index}].resources", f"resources[{index}].providers"
        if not resource_configuration.resources:
            errors.append(_at_least_one(resources, resources))
        errors += _validate_overlap(resource_configuration.resources, resources)
        errors += _validate_names(resource_configuration.resources, resources)
        if not resource_configuration.providers:
            errors.append(_at_least_one(providers, providers))
        for provider_index, provider in enumerate(resource_configuration.providers):
            path = f"{providers}[{provider_index}]"
            errors += _validate_single_provider(provider, path)
            if provider.kms is not None:
                errors += _validate_kms(provider.kms, f"{path}.kms", names, reload=reload)
                names.add(provider.kms.name)
            elif provider.aesgcm is not None:
                errors += _validate_keys(provider.aesgcm, f"{path}.aesgcm.keys", _AES_SIZES)
            elif provider.aescbc is not None:
                errors += _validate_keys(provider.aescbc, f"{path}.aescbc.keys", _AES_SIZES)
            elif provider.secretbox is not None:
                errors += _validate_keys(provider.secretbox, f"{path}.secretbox.keys", _SECRETBOX_SIZES)
    return errors


def _at_least_one(path: str, noun: str) -> FieldError:
    return required(path, f"at least one {noun} is required")


def _validate_overlap(resources: Sequence[str], path: str) -> ErrorList:
    parsed = [parse_group_resource(resource) for resource in resources]
    errors: ErrorList = []
    if len(set(parsed)) < len(parsed):
        errors.append(invalid(path, list(resources), "the same resource cannot be specified multiple times"))
    if _has_overlap(parsed):
        errors.append(
            invalid(
                path,
                list(resources),
                "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as "
                "they will be masked",
            )
        )
    return errors


def _has_overlap(parsed: Sequence[GroupResource]) -> bool:
    """Whether there are a resource and a wildcard that contains it. A duplicate wildcard contains itself. Upstream
    compares all pairs, which takes minutes for the largest allowed file."""
    if ("*", "*") in parsed and len(parsed) > 1:
        return True
    count = Counter(group for group, _name in parsed)
    return any(name == "*" and count[group] > 1 for group, name in parsed)


def _validate_names(resources: Sequence[str], path: str) -> ErrorList:
    return [
        invalid(f"{path}[{index}]", resource, detail)
        for index, resource in enumerate(resources)
        if (detail := _resource_name_error(resource))
    ]


def _resource_name_error(resource: str) -> str:
    if resource.lower() != resource:
        return "resource name should not contain capital letters"
    if resource == "*":
        return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    if resource in _NOT_A_REST_RESOURCE:
        return "resources which do not have REST API/s cannot be encrypted"
    group, name = parse_group_resource(resource)
    if group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the "
            "config file"
        )
    if group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if group == "*" and name != "*":
        return "encrypting the same resource across groups is not supported"
    return ""


def _validate_single_provider(provider: Provider, path: str) -> ErrorList:
    present = [name for name, field in _GO_NAMES if getattr(provider, field) is not None]
    if len(present) == 1:
        return []
    value = struct_value((name, _without_secrets(getattr(provider, field))) for name, field in _GO_NAMES)
    if not present:
        detail = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
        return [invalid(path, value, detail)]
    detail = "more than one provider specified in a single element, should split into different list elements"
    return [invalid(path, value, detail)]


def _without_secrets(value: object) -> object:
    """A provider with Go's field names, without secrets."""
    match value:
        case Keys():
            return {"Keys": [{"Name": key.name, "Secret": "REDACTED"} for key in value.keys]}
        case Kms():
            return {
                "APIVersion": value.api_version,
                "Name": value.name,
                "CacheSize": value.cache_size,
                "Endpoint": value.endpoint,
                "Timeout": value.timeout,
            }
    return value


def _validate_keys(keys: Keys, path: str, sizes: Sequence[int]) -> ErrorList:
    if not keys.keys:
        return [_at_least_one(path, "keys")]
    return [error for index, key in enumerate(keys.keys) for error in _validate_key(key, f"{path}[{index}]", sizes)]


def _validate_key(key: Key, path: str, sizes: Sequence[int]) -> ErrorList:
    errors: ErrorList = []
    if not key.name:
        errors.append(required(f"{path}.name", "name is a mandatory field for a key"))
    if not key.secret:
        return [*errors, required(f"{path}.secret", "secret is a mandatory field for a key")]
    try:
        secret = decode_secret(key.secret)
    except ValueError:
        return [*errors, invalid(f"{path}.secret", "REDACTED", "secrets must be base64 encoded")]
    if len(secret) not in sizes:
        expected = " ".join(map(str, sizes))
        detail = f"secret is not of the expected length, got {len(secret)}, expected one of [{expected}]"
        errors.append(invalid(f"{path}.secret", "REDACTED", detail))
    return errors


def decode_secret(text: str) -> bytes:
    """Decode standard base64 with padding; line ends are skipped, as in Go. Raises ``ValueError``."""
    try:
        return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _validate_kms(kms: Kms, path: str, names: set[str], *, reload: bool) -> ErrorList:
    return [
        *_validate_kms_name(kms, f"{path}.name", names, reload=reload),
        *_validate_timeout(kms, f"{path}.timeout"),
        *_validate_endpoint(kms.endpoint, f"{path}.endpoint"),
        *_validate_cache_size(kms, f"{path}.cachesize"),
        *_validate_api_version(kms.api_version, f"{path}.apiVersion"),
    ]


def _validate_kms_name(kms: Kms, path: str, names: set[str], *, reload: bool) -> ErrorList:
    errors: ErrorList = []
    if not kms.name:
        errors.append(required(path, "name is a mandatory field for a provider"))
    if kms.api_version != "v1" and ":" in kms.name:
        errors.append(invalid(path, kms.name, f"invalid KMS provider name {kms.name}, must not contain ':'"))
    if (reload or kms.api_version != "v1") and kms.name in names:
        errors.append(invalid(path, kms.name, f"duplicate KMS provider name {kms.name}, names must be unique"))
    return errors


def timeout_seconds(kms: Kms) -> float:
    """The timeout of a plugin. Raises ``DurationError``."""
    return parse_duration(kms.timeout or "0s")


def _validate_timeout(kms: Kms, path: str) -> ErrorList:
    try:
        seconds = timeout_seconds(kms)
    except DurationError as error:
        return [invalid(path, kms.timeout, str(error))]
    if seconds <= 0:
        return [invalid(path, format_duration(seconds), "timeout should be a positive value")]
    return []


def _validate_endpoint(endpoint: str, path: str) -> ErrorList:
    if not endpoint:
        return [invalid(path, "", "endpoint is a mandatory field for a kms")]
    if endpoint.startswith(":"):
        return [invalid(path, endpoint, _invalid_url_message(endpoint, "missing protocol scheme"))]
    try:
        scheme = urlsplit(endpoint).scheme
    except ValueError as error:
        return [invalid(path, endpoint, _invalid_url_message(endpoint, str(error)))]
    if scheme != "unix":
        return [invalid(path, endpoint, f"unsupported scheme {quote(scheme)} for KMS provider, only unix is supported")]
    return []


def _invalid_url_message(endpoint: str, cause: str) -> str:
    return f"invalid endpoint for kms provider, error: parse {quote(endpoint)}: {cause}"


def _validate_cache_size(kms: Kms, path: str) -> ErrorList:
    size = kms.cache_size
    if kms.api_version != "v1":
        return [] if size is None else [invalid(path, size, "cachesize is not supported in v2")]
    return [] if size else [invalid(path, size, "cachesize should be a positive value, or negative to disable")]


def _validate_api_version(version: str, path: str) -> ErrorList:
    if version in ("v1", "v2"):
        return []
    return [invalid(path, version, "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported")]
