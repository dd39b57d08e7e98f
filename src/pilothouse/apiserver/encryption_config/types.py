"""``EncryptionConfiguration`` of apiserver.config.k8s.io/v1, after apiserver's ``pkg/apis/apiserver/v1`` (v0.36,
``types_encryption.go`` and ``defaults.go``)."""

from typing import Any

import msgspec

from pilothouse.api.schema import Definition, Field, Type

GROUP = "apiserver.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "EncryptionConfiguration"
OTHER_KINDS = (
    "AdmissionConfiguration",
    "AuthenticationConfiguration",
    "AuthorizationConfiguration",
    "TracingConfiguration",
)
"""Other kinds of the API group, which upstream decodes before it rejects them."""
LEGACY = ("v1", "EncryptionConfig")
"""apiVersion and kind that older documentation used."""
_TIMEOUT = "3s"
_CACHE_SIZE = 1000


class EncryptionConfigError(ValueError):
    """An invalid file, with upstream's message."""


class Key(msgspec.Struct, frozen=True):
    """A key; its secret is in base64."""

    name: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        """Without the secret, for logs."""
        return f"Key(name={self.name!r}, secret=[REDACTED])"


class Keys(msgspec.Struct, frozen=True):
    """Keys of one provider: the first one encrypts."""

    keys: tuple[Key, ...] = ()


class Kms(msgspec.Struct, frozen=True, rename="camel"):
    """A KMS plugin."""

    api_version: str = ""
    name: str = ""
    cache_size: int | None = msgspec.field(default=None, name="cachesize")
    endpoint: str = ""
    timeout: str | None = None

    def with_defaults(self) -> "Kms":
        """``SetDefaults_KMSConfiguration``."""
        version = self.api_version or "v1"
        size = _CACHE_SIZE if self.cache_size is None and version == "v1" else self.cache_size
        timeout = _TIMEOUT if self.timeout is None else self.timeout
        return msgspec.structs.replace(self, api_version=version, cache_size=size, timeout=timeout)


class Provider(msgspec.Struct, frozen=True):
    """Exactly one of these is set."""

    aesgcm: Keys | None = None
    aescbc: Keys | None = None
    secretbox: Keys | None = None
    identity: dict[str, Any] | None = None
    kms: Kms | None = None


class ResourceConfiguration(msgspec.Struct, frozen=True):
    """Resources and their providers: the first one encrypts, all of them decrypt."""

    resources: tuple[str, ...] = ()
    providers: tuple[Provider, ...] = ()


class EncryptionConfiguration(msgspec.Struct, frozen=True):
    """The whole configuration."""

    resources: tuple[ResourceConfiguration, ...] = ()


def _definition(name: str, /, **types: Type) -> Definition:
    return Definition(
        f"io.k8s.apiserver.pkg.apis.apiserver.v1.{name}", {key: Field(name=key, type=types[key]) for key in types}
    )


def _list_of(definition: Definition) -> Type:
    return Type("list", Type("object", definition=definition))


_TEXT = Type("string")
_KEYS = _list_of(_definition("Key", name=_TEXT, secret=_TEXT))
_KMS = _definition(
    "KMSConfiguration", apiVersion=_TEXT, name=_TEXT, cachesize=Type("int32"), endpoint=_TEXT, timeout=_TEXT
)
_PROVIDER = _definition(
    "ProviderConfiguration",
    aesgcm=Type("object", definition=_definition("AESConfiguration", keys=_KEYS)),
    aescbc=Type("object", definition=_definition("AESConfiguration", keys=_KEYS)),
    secretbox=Type("object", definition=_definition("SecretboxConfiguration", keys=_KEYS)),
    identity=Type("object", definition=_definition("IdentityConfiguration")),
    kms=Type("object", definition=_KMS),
)
_RESOURCE = _definition("ResourceConfiguration", resources=Type("list", _TEXT), providers=_list_of(_PROVIDER))
DEFINITION = _definition(KIND, apiVersion=_TEXT, kind=_TEXT, resources=_list_of(_RESOURCE))
"""A list of these, for strict decoding."""
