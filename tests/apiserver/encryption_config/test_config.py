"""``--encryption-provider-config``: parsing and validation, with upstream's errors.

After apiserver's ``pkg/apis/apiserver/validation/validation_encryption_test.go`` and
``pkg/server/options/encryptionconfig/config_test.go`` (v0.36).
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pilothouse.apiserver.encryption_config.config import MAX_BYTES, MAX_PROVIDERS, load_config, parse_config, read_hash
from pilothouse.apiserver.encryption_config.types import EncryptionConfigError
from pilothouse.env import Env
from pilothouse.storage.encryption.metrics import EncryptionMetrics
from pilothouse.storage.encryption.transformer import Context, TransformError

KEY = {"name": "key1", "secret": base64.b64encode(b"k" * 32).decode()}
AES = {"aescbc": {"keys": [KEY]}}
KMS = {"name": "foo", "endpoint": "unix:///tmp/kms.sock", "apiVersion": "v2"}
FILE = "file.yaml"
NO_PROVIDER = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
OVERLAP = (
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be "
    "masked"
)


def config(*resources: Any, **more: Any) -> bytes:
    """A file with these entries: resources and providers."""
    entries = [{"resources": names, "providers": providers} for names, providers in resources]
    whole = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": entries}
    return json.dumps({**whole, **more}).encode()


def of(*names: str) -> bytes:
    return config((list(names), [AES]))


def by(*providers: Any) -> bytes:
    return config((["secrets"], list(providers)))


def kms(**change: Any) -> bytes:
    return by({"kms": {name: value for name, value in {**KMS, **change}.items() if value is not None}})


def refused(data: bytes, *, reload: bool = False) -> str:
    with pytest.raises(EncryptionConfigError) as error:
        parse_config(data, FILE, reload=reload)
    return str(error.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(config(), "resources: Required value: at least one resources is required", id="no rules"),
        pytest.param(
            config(([], [AES])),
            "resources[0].resources: Required value: at least one resources[0].resources is required",
            id="no resources",
        ),
        pytest.param(
            config((["secrets"], [])),
            "resources[0].providers: Required value: at least one resources[0].providers is required",
            id="no providers",
        ),
        pytest.param(
            by({"aescbc": {"keys": [KEY]}, "secretbox": {"keys": [KEY]}}),
            'resources[0].providers[0]: Invalid value: {"AESGCM":null,"AESCBC":{"Keys":[{"Name":"key1","Secret":'
            '"REDACTED"}]},"Secretbox":{"Keys":[{"Name":"key1","Secret":"REDACTED"}]},"Identity":null,"KMS":null}: '
            "more than one provider specified in a single element, should split into different list elements",
            id="two providers in one entry",
        ),
        pytest.param(
            by({}),
            'resources[0].providers[0]: Invalid value: {"AESGCM":null,"AESCBC":null,"Secretbox":null,"Identity":null,'
            f'"KMS":null}}: {NO_PROVIDER}',
            id="no provider in one entry",
        ),
        pytest.param(
            by({"aescbc": {"keys": []}}),
            "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required",
            id="no keys",
        ),
        pytest.param(
            by({"aesgcm": {"keys": [{**KEY, "name": ""}]}}),
            "resources[0].providers[0].aesgcm.keys[0].name: Required value: name is a mandatory field for a key",
            id="a key without a name",
        ),
        pytest.param(
            by({"aesgcm": {"keys": [{**KEY, "secret": ""}]}}),
            "resources[0].providers[0].aesgcm.keys[0].secret: Required value: secret is a mandatory field for a key",
            id="a key without a secret",
        ),
        pytest.param(
            by({"aesgcm": {"keys": [{**KEY, "secret": "d2hhdA==bm90"}]}}),
            'resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: "REDACTED": secrets must be base64 '
            "encoded",
            id="secret is not base64",
        ),
        pytest.param(
            by({"aescbc": {"keys": [{**KEY, "secret": "bm90IGEga2V5"}]}}),
            'resources[0].providers[0].aescbc.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected '
            "length, got 9, expected one of [16 24 32]",
            id="a short key",
        ),
        pytest.param(
            by({"secretbox": {"keys": [{**KEY, "secret": base64.b64encode(b"k" * 16).decode()}]}}),
            'resources[0].providers[0].secretbox.keys[0].secret: Invalid value: "REDACTED": secret is not of the '
            "expected length, got 16, expected one of [32]",
            id="a short key of secretbox",
        ),
        pytest.param(
            of("secrets", "secrets"),
            'resources[0].resources: Invalid value: ["secrets","secrets"]: the same resource cannot be specified '
            "multiple times",
            id="repeated",
        ),
        pytest.param(
            of("secrets", "*."), f'resources[0].resources: Invalid value: ["secrets","*."]: {OVERLAP}', id="masked"
        ),
        pytest.param(
            of("*.*", "pods"),
            f'resources[0].resources: Invalid value: ["*.*","pods"]: {OVERLAP}',
            id="*.* with another resource",
        ),
        pytest.param(
            of("Secrets"),
            'resources[0].resources[0]: Invalid value: "Secrets": resource name should not contain capital letters',
            id="capital letters",
        ),
        pytest.param(
            of("*"),
            "resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API "
            "group or *.* to encrypt all resources",
            id="a star alone",
        ),
        pytest.param(
            of("serviceipallocations"),
            'resources[0].resources[0]: Invalid value: "serviceipallocations": resources which do not have REST API/s '
            "cannot be encrypted",
            id="resource that is not stored",
        ),
        pytest.param(
            of("*.events.k8s.io"),
            "resources[0].resources[0]: Invalid value: \"*.events.k8s.io\": '*.events.k8s.io' objects are stored using "
            "the 'events' API group in etcd. Use 'events' instead in the config file",
            id="events in their other group",
        ),
        pytest.param(
            of("ingresses.extensions"),
            "resources[0].resources[0]: Invalid value: \"ingresses.extensions\": 'extensions' group has been removed "
            "and cannot be used for encryption",
            id="extensions",
        ),
        pytest.param(
            of("secrets.*"),
            'resources[0].resources[0]: Invalid value: "secrets.*": encrypting the same resource across groups is not '
            "supported",
            id="a resource of all groups",
        ),
        pytest.param(
            kms(name=""),
            "resources[0].providers[0].kms.name: Required value: name is a mandatory field for a provider",
            id="kms, no name",
        ),
        pytest.param(
            kms(name="a:b"),
            'resources[0].providers[0].kms.name: Invalid value: "a:b": invalid KMS provider name a:b, must not contain '
            "':'",
            id="kms, a colon",
        ),
        pytest.param(
            by({"kms": KMS}, {"kms": KMS}),
            'resources[0].providers[1].kms.name: Invalid value: "foo": duplicate KMS provider name foo, names must be '
            "unique",
            id="kms, one name twice",
        ),
        pytest.param(
            kms(timeout="0s"),
            'resources[0].providers[0].kms.timeout: Invalid value: "0s": timeout should be a positive value',
            id="kms, no time",
        ),
        pytest.param(
            kms(timeout="soon"),
            'resources[0].providers[0].kms.timeout: Invalid value: "soon": time: invalid duration "soon"',
            id="kms, no duration",
        ),
        pytest.param(
            kms(endpoint=None),
            'resources[0].providers[0].kms.endpoint: Invalid value: "": endpoint is a mandatory field for a kms',
            id="kms, no endpoint",
        ),
        pytest.param(
            kms(endpoint="tcp://localhost:1"),
            'resources[0].providers[0].kms.endpoint: Invalid value: "tcp://localhost:1": unsupported scheme "tcp" for '
            "KMS provider, only unix is supported",
            id="kms, over tcp",
        ),
        pytest.param(
            kms(endpoint=":foo"),
            'resources[0].providers[0].kms.endpoint: Invalid value: ":foo": invalid endpoint for kms provider, error: '
            'parse ":foo": missing protocol scheme',
            id="kms, no URL",
        ),
        pytest.param(
            kms(cachesize=10),
            "resources[0].providers[0].kms.cachesize: Invalid value: 10: cachesize is not supported in v2",
            id="kms v2 with the size of a cache",
        ),
        pytest.param(
            kms(apiVersion="v1", cachesize=0),
            "resources[0].providers[0].kms.cachesize: Invalid value: 0: cachesize should be a positive value, or "
            "negative to disable",
            id="kms v1 without a cache",
        ),
        pytest.param(
            kms(apiVersion="v3"),
            'resources[0].providers[0].kms.apiVersion: Invalid value: "v3": unsupported apiVersion apiVersion for KMS '
            "provider, only v1 and v2 are supported",
            id="kms of another version",
        ),
        pytest.param(
            config((["*"], [{"kms": {**KMS, "name": ""}}])),
            "[resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API "
            "group or *.* to encrypt all resources, resources[0].providers[0].kms.name: Required value: name is a "
            "mandatory field for a provider]",
            id="several errors",
        ),
    ],
)
def test_validation_errors_are_upstreams(data: bytes, message: str) -> None:
    assert refused(data) == message


DECODING = f'error decoding encryption provider configuration file "{FILE}": '


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            kms(pandas="x"),
            f'{DECODING}strict decoding error: unknown field "resources[0].providers[0].kms.pandas"',
            id="an unknown field",
        ),
        pytest.param(
            by(AES)[:-1] + b',"kind":"EncryptionConfiguration"}',
            f'{DECODING}strict decoding error: line 1: key "kind" already set in map',
            id="a field twice",
        ),
        pytest.param(
            config(kind="EncryptionConfigurations"),
            f'{DECODING}no kind "EncryptionConfigurations" is registered for version "apiserver.config.k8s.io/v1" in '
            'scheme "k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go:142"',
            id="another kind",
        ),
        pytest.param(
            config(kind="TracingConfiguration"),
            "got unexpected config type: apiserver.config.k8s.io/v1, Kind=TracingConfiguration",
            id="kind of another configuration file",
        ),
        pytest.param(config(kind=""), f"{DECODING}Object 'Kind' is missing", id="missing kind"),
        pytest.param(b"[", f"{DECODING}error converting YAML to JSON: yaml: ", id="invalid YAML"),
        pytest.param(b"text", f"{DECODING}couldn't get version/kind; ", id="not a mapping"),
        pytest.param(
            by({"aescbc": {"keys": 5}}), f"{DECODING}json: cannot unmarshal number", id="keys of the wrong type"
        ),
    ],
)
def test_undecodable_configuration_is_rejected(data: bytes, message: str) -> None:
    assert refused(data).startswith(message)


def test_kms_names_are_unique_with_automatic_reload() -> None:
    """Names of KMS v1 providers only with automatic reload."""
    two = by({"kms": {**KMS, "apiVersion": "v1"}}, {"kms": {**KMS, "apiVersion": "v1"}})
    assert "duplicate KMS provider name foo" in refused(two, reload=True)
    parse_config(two, FILE, reload=False)


def test_deprecated_kind_name_is_accepted() -> None:
    parse_config(config((["secrets"], [AES]), apiVersion="v1", kind="EncryptionConfig"), FILE, reload=False)


def test_keys_are_not_printed() -> None:
    parsed = parse_config(by(AES), FILE, reload=False)
    assert KEY["secret"] not in repr(parsed)
    assert "key1" in repr(parsed)
    keys = f"{{keys: [{{name: a, secret:{KEY['secret']}}}]}}"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration"
    message = refused(f"{head}\nresources: [{{resources: [a], providers: [{{aescbc: {keys}}}]}}]".encode())
    assert (
        message == f'{DECODING}strict decoding error: unknown field "resources[0].providers[0].aescbc.keys[0].REDACTED"'
    )
    misspelt = refused(by({"aesgcm": {"keys": [{**KEY, "secretKey": "a"}]}}))
    assert misspelt.endswith('unknown field "resources[0].providers[0].aesgcm.keys[0].secretKey"')


def test_file_size_is_bounded() -> None:
    keys = [{**KEY, "name": str(number)} for number in range(MAX_PROVIDERS + 1)]
    assert "1,001 keys and KMS providers, and at most 1,000" in refused(by({"aesgcm": {"keys": keys}}))
    many = [f"r{number}" for number in range(50_000)]  # comparing all pairs would take minutes
    assert parse_config(of(*many), FILE, reload=False).resources[0].resources == tuple(many)


# Files


@pytest.fixture
def metrics() -> EncryptionMetrics:
    return EncryptionMetrics("server", Env().timestamp)


def load_error(path: Path, metrics: EncryptionMetrics) -> str:
    with pytest.raises(EncryptionConfigError) as error:
        load_config(Env(), str(path), metrics, reload=False)
    return str(error.value)


def test_unusable_files(tmp_path: Path, metrics: EncryptionMetrics) -> None:
    path = tmp_path / "config.yaml"
    parsing = "error while parsing file: "
    assert load_error(path, metrics) == (
        f'{parsing}error while loading file: error reading encryption provider configuration file "{path}": open '
        f"{path}: no such file or directory"
    )
    path.write_bytes(b"")
    assert load_error(path, metrics) == (
        f'{parsing}error while loading file: encryption provider configuration file "{path}" is empty'
    )
    path.write_bytes(b" " * (MAX_BYTES + 1))
    assert load_error(path, metrics).endswith("has more than 1,048,576 bytes")
    path.write_bytes(of())
    assert load_error(path, metrics).startswith(f"{parsing}resources[0].resources: Required value")
    path.write_bytes(kms(apiVersion=None))
    assert load_error(path, metrics) == (
        "error while building transformers: KMSv1 is deprecated and will only receive security updates going forward. "
        "Use KMSv2 instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature."
    )


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        pytest.param("*.", "secrets", 'resource "secrets" is masked by earlier rule "*."', id="core"),
        pytest.param("*.apps", "deployments.apps", '"deployments.apps" is masked by earlier rule "*.apps"', id="group"),
        pytest.param("*.*", "*.apps", 'resource "*.apps" is masked by earlier rule "*.*"', id="all"),
    ],
)
def test_masked_resource_entry_is_rejected(
    tmp_path: Path, metrics: EncryptionMetrics, first: str, second: str, message: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(config(([first], [AES]), ([second], [AES])))
    assert load_error(path, metrics).endswith(message)


def test_most_specific_entry_wins(tmp_path: Path, metrics: EncryptionMetrics) -> None:
    def aes(name: str) -> Any:
        return [{"aesgcm": {"keys": [{**KEY, "name": name}]}}]

    path = tmp_path / "config.yaml"
    path.write_bytes(
        config(
            (["events"], [{"identity": {}}]),
            (["secrets", "pandas.bears.example"], aes("listed")),
            (["*.apps"], aes("group")),
            (["*.*"], [*aes("all"), {"identity": {}}]),
        )
    )
    loaded = load_config(Env(), str(path), metrics, reload=False)
    assert loaded.content_hash == read_hash(str(path))
    written = {}
    for resource in ("secrets", "configmaps", "events", "deployments.apps", "pandas.bears.example", "x.bears.example"):
        name, _, group = resource.partition(".")
        transformer = loaded.providers.of(group, name)
        assert transformer is not None
        written[resource] = transformer.to_storage(b"v", Context(b"/k", resource)).partition(b":v1:")[2].split(b":")[0]
    assert written == {
        "secrets": b"listed",
        "configmaps": b"all",
        "events": b"",
        "deployments.apps": b"group",
        "pandas.bears.example": b"listed",
        "x.bears.example": b"all",
    }


def test_keys_of_a_provider_are_selected_by_name(tmp_path: Path, metrics: EncryptionMetrics) -> None:
    path = tmp_path / "config.yaml"
    for provider, display_name in (("aesgcm", "AES"), ("aescbc", "AES"), ("secretbox", "Secretbox")):
        path.write_bytes(by({provider: {"keys": [{**KEY, "name": "new"}, {**KEY, "name": "old"}]}}))
        transformer = load_config(Env(), str(path), metrics, reload=False).providers.of("", "secrets")
        assert transformer is not None
        context = Context(b"/registry/secrets/default/x", "secrets")
        stored = transformer.to_storage(b"value", context)
        prefix = f"k8s:enc:{provider}:v1:".encode()
        assert stored.startswith(prefix + b"new:")
        assert transformer.from_storage(stored, context) == (b"value", False)
        older = stored.replace(b":new:", b":old:", 1)
        assert transformer.from_storage(older, context) == (b"value", True)
        with pytest.raises(
            TransformError, match=f"no matching key was found for the provided {display_name} transformer"
        ):
            transformer.from_storage(prefix + b"other:x", context)
    assert metrics.registry.value(
        "apiserver_storage_transformation_operations_total", "secrets", "to_storage", "k8s:enc:secretbox:v1:", "OK"
    )
