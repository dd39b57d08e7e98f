"""``TracingConfiguration``: the file of ``--tracing-config-file``.

After apiserver's ``pkg/server/options/tracing.go`` and component-base's ``tracing/api/v1/config.go`` (v0.36), whose
texts the errors have.
"""

import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from pilothouse.api.schema import Definition, Field, Type
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.bodies import DecodeError, decode_body
from pilothouse.machinery.go_text import open_error, quote

with lazy_imports():
    from pilothouse.machinery import yaml_text

DEFAULT_ENDPOINT = "localhost:4317"
MILLION = 1_000_000
_MAX_BYTES = 1024 * 1024
_GROUP = "apiserver.config.k8s.io"
_KIND = "TracingConfiguration"
_VERSIONS = frozenset({"", f"{_GROUP}/v1", f"{_GROUP}/v1beta1", f"{_GROUP}/v1alpha1", f"{_GROUP}/__internal"})
_SCHEME = "k8s.io/apiserver/pkg/server/options/tracing.go:49"
_SCHEMES = ("dns", "unix", "unix-abstract")
_has_bad_escape = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}").search


class TracingError(ValueError):
    """A configuration that can't be used, in upstream's words."""


class TracingConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """Where spans go, and how many."""

    endpoint: str | None = None
    """An OTLP collector over gRPC, without TLS; None: ``DEFAULT_ENDPOINT``."""
    sampling_rate_per_million: int | None = None
    """Samples per million traces. None and 0: only those whose parent is sampled."""


def load_tracing_configuration(path: str) -> TracingConfiguration:
    """The configuration in a file, which is valid. Raises ``TracingError``."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise TracingError(f"tracing-config-file {path} does not exist") from None
    except OSError as error:
        why = open_error(path, error)
        raise TracingError(
            f"failed to read tracing config: unable to read tracing configuration from {quote(path)}: {why}"
        ) from error
    if len(text) > _MAX_BYTES:
        raise TracingError(f"failed to read tracing config: {path} is larger than {_MAX_BYTES} bytes")
    try:
        configuration = parse_tracing_configuration(text)
    except TracingError as error:
        raise TracingError(f"failed to read tracing config: {error}") from None
    errors = validate_tracing_configuration(configuration)
    if errors:
        listed = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise TracingError(f"failed to validate tracing configuration: {listed}")
    return configuration


def parse_tracing_configuration(text: bytes) -> TracingConfiguration:
    """The configuration in YAML or JSON, as strictly decoded as upstream does it. Raises ``TracingError``."""
    try:
        document = yaml_text.read_yaml(text)
    except yaml_text.YamlError as error:
        raise _undecodable(f"error converting YAML to JSON: {error}") from None
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise _undecodable("couldn't get version/kind; the document is no object")
    type_meta = value.get("apiVersion") or "", value.get("kind") or _KIND
    if type_meta[0] not in _VERSIONS or type_meta[1] != _KIND:
        version = type_meta[0] or f"{_GROUP}/__internal"
        raise _undecodable(f'no kind "{type_meta[1]}" is registered for version "{version}" in scheme "{_SCHEME}"')
    try:
        decoded = decode_body(msgspec.json.encode(value), _DEFINITION)
    except DecodeError as error:
        raise _undecodable(str(error)) from None
    strict_errors = list(decoded.strict_errors)
    if document.repeated:
        strict_errors.insert(0, "yaml: unmarshal errors:\n  " + "\n  ".join(document.repeated))
    if strict_errors:
        raise _undecodable(f"strict decoding error: {', '.join(strict_errors)}")
    return msgspec.convert(decoded.document, TracingConfiguration)


def validate_tracing_configuration(configuration: TracingConfiguration) -> list[str]:
    """The errors of a configuration."""
    errors = []
    rate = configuration.sampling_rate_per_million
    if rate is not None and rate < 0:
        errors.append(f"samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive")
    if rate is not None and rate > MILLION:
        errors.append(
            f"samplingRatePerMillion: Invalid value: {rate}: sampling rate per million must be less than or equal to "
            "one million"
        )
    if configuration.endpoint is not None:
        errors += _validate_endpoint(configuration.endpoint)
    return errors


def _validate_endpoint(endpoint: str) -> list[str]:
    if "//" not in endpoint:
        endpoint = f"dns://{endpoint}"
    scheme, _separator, rest = endpoint.partition(":")
    bad = _has_bad_escape(rest)
    if bad is not None:
        return [
            f"endpoint: Invalid value: {quote(endpoint)}: parse {quote(endpoint)}: invalid URL escape {quote(bad[0])}"
        ]
    try:
        urlsplit(endpoint)
        port = rest.removeprefix("//").partition("/")[0].rpartition("]")[2].rpartition(":")
        if port[1] and port[2] and not port[2].isdecimal():
            return [
                f"endpoint: Invalid value: {quote(endpoint)}: parse {quote(endpoint)}: invalid port "
                f"{quote(':' + port[2])} after host"
            ]
    except ValueError as error:
        return [f"endpoint: Invalid value: {quote(endpoint)}: parse {quote(endpoint)}: {error}"]
    authority, slash, name = rest.removeprefix("//").partition("/")
    if scheme == "dns" and authority and slash:
        # The authority is the DNS server. The exporter would send its spans to it.
        return [f"endpoint: Invalid value: {quote(endpoint)}: the DNS server can't be chosen here: use dns:///{name}"]
    if scheme.lower() in _SCHEMES:
        return []
    return [
        f"endpoint: Invalid value: {quote(endpoint)}: unsupported scheme: {scheme}.  Options are none, dns, unix, or "
        "unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
    ]


def _undecodable(why: str) -> TracingError:
    return TracingError(f"unable to decode tracing configuration data: {why}")


_TEXT = Type("string")
_TYPES = {"apiVersion": _TEXT, "kind": _TEXT, "endpoint": _TEXT, "samplingRatePerMillion": Type("int32")}
_DEFINITION = Definition(
    "io.k8s.apiserver.pkg.apis.apiserver.v1.TracingConfiguration",
    {name: Field(name=name, type=type_) for name, type_ in _TYPES.items()},
)
