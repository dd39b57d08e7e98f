"""The file of ``--tracing-config-file``: apiserver ``pkg/server/options/tracing_test.go`` and component-base
``tracing/api/v1/config_test.go`` (v0.36)."""

from pathlib import Path

import pytest
from tests.tables import cases

from pilothouse.cli import apiserver, kube_apiserver, manager, nodes, run, scheduler, up
from pilothouse.tracing.config import (
    TracingConfiguration,
    TracingError,
    load_tracing_configuration,
    parse_tracing_configuration,
)
from pilothouse.tracing.flags import FLAG

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
UNREADABLE = "failed to read tracing config: unable to decode tracing configuration data: "
INVALID = "failed to validate tracing configuration: "


@cases(
    "text, endpoint, rate",
    {
        "an empty file": ("", None, None),
        "all fields": (f"{HEAD}endpoint: localhost:4317\nsamplingRatePerMillion: 12345\n", "localhost:4317", 12345),
        "v1alpha1": (HEAD.replace("/v1", "/v1alpha1") + "endpoint: localhost:4317\n", "localhost:4317", None),
        "v1beta1": (HEAD.replace("/v1", "/v1beta1") + "samplingRatePerMillion: 1\n", None, 1),
        "an address": (f"{HEAD}endpoint: 127.0.0.1:4317\n", "127.0.0.1:4317", None),
        "kind only": (HEAD, None, None),
        "JSON": ('{"kind": "TracingConfiguration", "endpoint": "x:1"}', "x:1", None),
    },
)
def test_valid_configurations(text: str, endpoint: str | None, rate: int | None) -> None:
    assert parse_tracing_configuration(text.encode()) == TracingConfiguration(endpoint, rate)


@cases(
    "text, error",
    {
        "a field twice": (
            f"{HEAD}endpoint: localhost:4317\nendpoint: localhost:4318\n",
            f'{UNREADABLE}strict decoding error: yaml: unmarshal errors:\n  line 4: key "endpoint" already set in map',
        ),
        "unknown field": (
            f"{HEAD}foo: bar\n",
            f'{UNREADABLE}strict decoding error: unknown field "foo"',
        ),
        "different kind": (
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\n",
            f'{UNREADABLE}no kind "DaemonSet" is registered for version "apps/v1" in scheme '
            '"k8s.io/apiserver/pkg/server/options/tracing.go:49"',
        ),
        "wrong type": (
            f"{HEAD}samplingRatePerMillion: many\n",
            f"{UNREADABLE}json: cannot unmarshal string into Go struct field "
            "TracingConfiguration.samplingRatePerMillion of type int32",
        ),
        "invalid YAML": (
            "a: [",
            f"{UNREADABLE}error converting YAML to JSON: yaml: line 1: did not find expected node content",
        ),
        "a list": ("- a\n", f"{UNREADABLE}couldn't get version/kind; the document is no object"),
        "a rate that is negative": (
            f"{HEAD}samplingRatePerMillion: -1\n",
            f"{INVALID}samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
        ),
        "a rate beyond a million": (
            f"{HEAD}samplingRatePerMillion: 1000001\n",
            f"{INVALID}samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or "
            "equal to one million",
        ),
        "unsupported scheme": (
            f"{HEAD}endpoint: https://localhost:4317\n",
            f'{INVALID}endpoint: Invalid value: "https://localhost:4317": unsupported scheme: https.  Options are '
            "none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md",
        ),
        "an endpoint that is no URL": (
            f"{HEAD}endpoint: 'dns://%00bad:'\n".replace("%00", "%zz"),
            f'{INVALID}endpoint: Invalid value: "dns://%zzbad:": parse "dns://%zzbad:": invalid URL escape "%zz"',
        ),
        "invalid port": (
            f"{HEAD}endpoint: localhost:otlp\n",
            f'{INVALID}endpoint: Invalid value: "dns://localhost:otlp": parse "dns://localhost:otlp": invalid port '
            '":otlp" after host',
        ),
        "DNS authority": (
            f"{HEAD}endpoint: dns://8.8.8.8/collector:4317\n",
            f'{INVALID}endpoint: Invalid value: "dns://8.8.8.8/collector:4317": the DNS server can\'t be chosen here: '
            "use dns:///collector:4317",
        ),
        "two errors": (
            f"{HEAD}samplingRatePerMillion: -1\nendpoint: tcp://a\n",
            f"{INVALID}[samplingRatePerMillion: Invalid value: -1: sampling rate must be positive, endpoint: Invalid "
            'value: "tcp://a": unsupported scheme: tcp.  Options are none, dns, unix, or unix-abstract.  See '
            "https://github.com/grpc/grpc/blob/master/doc/naming.md]",
        ),
    },
)
def test_invalid_configurations(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "tracing.yaml"
    path.write_text(text)
    with pytest.raises(TracingError) as raised:
        load_tracing_configuration(str(path))
    assert str(raised.value) == error


@cases(
    "endpoint",
    {item: (item,) for item in ("a:1", "dns:///a:1", "unix:///run/otel.sock", "unix-abstract://otel", "[::1]:4317")},
)
def test_endpoints(tmp_path: Path, endpoint: tuple[str]) -> None:
    path = tmp_path / "tracing.yaml"
    path.write_text(f"{HEAD}endpoint: '{endpoint[0]}'\n")
    assert load_tracing_configuration(str(path)).endpoint == endpoint[0]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TracingError, match=r"^tracing-config-file .*/absent does not exist$"):
        load_tracing_configuration(str(tmp_path / "absent"))


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(TracingError) as raised:
        load_tracing_configuration(str(tmp_path))
    assert str(raised.value) == (
        f'failed to read tracing config: unable to read tracing configuration from "{tmp_path}": open {tmp_path}: is a '
        "directory"
    )


def test_too_large_file(tmp_path: Path) -> None:
    path = tmp_path / "tracing.yaml"
    path.write_text("# " + "x" * 1024 * 1024)
    with pytest.raises(TracingError, match="is larger than 1048576 bytes"):
        load_tracing_configuration(str(path))


def test_every_program_has_the_flag() -> None:
    for module in (apiserver, kube_apiserver, manager, nodes, run, scheduler, up):
        assert module.flag_set("x").flag(FLAG).default == ""
