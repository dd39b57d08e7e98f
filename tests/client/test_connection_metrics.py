"""Metrics of transports, under the names and labels of component-base v0.36."""

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.client.certificates import Authority
from tests.client.scripted_server import ReceivedRequest, ScriptedServer
from tests.client.test_tls import GET, credential, plugin, server_context
from tests.tables import cases

from pilothouse.client.connect import ConnectionInfo
from pilothouse.client.endpoint import parse_endpoint
from pilothouse.client.errors import ConfigError, ConnectFailed
from pilothouse.client.exec_plugin import ExecPlugin, ExecSettings
from pilothouse.client.remote import RemoteTransport
from pilothouse.client.tls import TlsContexts, TlsSettings
from pilothouse.env import Env
from pilothouse.runtime.client_metrics import RestClientMetrics
from pilothouse.runtime.metrics import Registry

pytestmark = pytest.mark.real_loop(timeout=20)


class Measured:
    """A registry and what reports to it."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.metrics = RestClientMetrics(self.registry, Env().now)

    def __call__(self, name: str, *labels: str) -> float:
        return self.registry.value(f"rest_client_{name}", *labels)


def answer(request: ReceivedRequest) -> None:
    request.answer(b"{}")


async def test_dns_resolution_is_timed() -> None:
    measured = Measured()
    async with ScriptedServer(answer) as server:
        for url in (server.url.replace("127.0.0.1", "localhost"), server.url):
            transport = RemoteTransport(parse_endpoint(url, "test"), Env(), metrics=measured.metrics)
            for _request in range(2):
                await transport.request(GET)
            await transport.close()
    assert measured("dns_resolution_duration_seconds", "localhost") == 1
    assert 'host="127.0.0.1"' not in measured.registry.exposition()


def write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


@cases(
    "change, labels",
    {
        "another certificate authority": (lambda path: write(path, Authority().pem), ("success", "updated")),
        "written again": (lambda path: write(path, path.read_bytes()), ("success", "unchanged")),
        "empty file": (lambda path: write(path, b""), ("failure", "empty")),
        "invalid certificate": (lambda path: write(path, b"half"), ("failure", "ca_parse_error")),
        "missing file": (Path.unlink, ("failure", "read_error")),
    },
)
def test_ca_file_change_is_counted_once(
    tmp_path: Path, change: Callable[[Path], None], labels: tuple[str, str]
) -> None:
    measured, path = Measured(), tmp_path / "ca.crt"
    path.write_bytes(Authority().pem)
    contexts = TlsContexts(TlsSettings(ca_file=str(path)), Env(), measured.metrics)
    contexts.get()
    assert "ca_reload" not in measured.registry.exposition(), "the first time is no reload"
    change(path)
    for _connection in range(3):
        contexts.get()
    assert measured("transport_ca_reload_total", *labels) == 1
    assert measured.registry.exposition().count("rest_client_transport_ca_reload_total{") == 1


async def test_exec_plugin_calls_are_counted(tmp_path: Path) -> None:
    measured = Measured()

    async def called(result: ExecPlugin) -> None:
        result.metrics = measured.metrics
        await result.fetch()

    await called(plugin(tmp_path, credential("{'token': 't'}")))
    with pytest.raises(ConnectFailed):
        await called(plugin(tmp_path, "sys.exit(7)"))
    with pytest.raises(ConnectFailed):
        await called(ExecPlugin(ExecSettings("no-such-plugin", "v1", interactive_mode="Never"), Env()))
    assert measured("exec_plugin_call_total", "0", "no_error") == 1
    assert measured("exec_plugin_call_total", "7", "plugin_execution_error") == 1
    assert measured("exec_plugin_call_total", "1", "plugin_not_found_error") == 1
    assert "rest_client_exec_plugin_ttl_seconds +Inf" in measured.registry.exposition()


async def test_exec_plugin_certificate_lifetime(tmp_path: Path) -> None:
    """Each run prints the next one of two."""
    measured, authority = Measured(), Authority()
    pairs = []
    for name in ("first", "second"):
        certificate, key = authority.issue(name)
        pairs.append({"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()})
    expired = {"expirationTimestamp": "2020-01-01T00:00:00Z"}
    runs = str(tmp_path / "runs")
    script = credential(f"{{**{json.dumps(pairs)}[len(open({runs!r}).read()) - 1], **{expired!r}}}")
    executable = plugin(tmp_path, script)
    tls = server_context(tmp_path, authority, client_auth=authority)
    async with ScriptedServer(answer, tls=tls) as server:
        connection = ConnectionInfo(
            endpoint=parse_endpoint(server.url, "test"),
            tls=TlsSettings(ca_data=authority.pem),
            login=lambda _env: executable,
        )
        transport = connection.transport(Env(), metrics=measured.metrics)
        assert measured("exec_plugin_ttl_seconds") == float("inf")
        await executable.fetch()
        left = measured("exec_plugin_ttl_seconds")
        assert 0 < left < datetime.timedelta(days=400).total_seconds()
        assert measured("exec_plugin_certificate_rotation_age") == 0, "nothing was rotated yet"
        await executable.fetch()
        await transport.close()
    assert measured("exec_plugin_certificate_rotation_age") == 1


async def test_invalid_certificate_is_reported_on_use(tmp_path: Path) -> None:
    measured = Measured()
    executable = plugin(tmp_path, credential("{'clientCertificateData': 'x', 'clientKeyData': 'y'}"))
    executable.metrics = measured.metrics
    pair = await executable.key_pair()
    with pytest.raises(ConfigError, match="is not a PEM certificate"):
        TlsContexts(TlsSettings(), Env()).get(pair)
    assert measured("exec_plugin_ttl_seconds") == float("inf")
