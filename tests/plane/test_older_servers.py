"""API servers of older releases on the same etcd are detected from stored objects."""

import datetime
from typing import Any

import msgspec
import pytest

from pilothouse.apiserver.controllers.identity_lease import own_name, server_name
from pilothouse.apiserver.serializers import protobuf
from pilothouse.apiserver.serializers.protobuf_encoding import marshal
from pilothouse.apiserver.storage_codec import ObjectCodec
from pilothouse.apiserver.storage_codec.codec import _message
from pilothouse.env import Env
from pilothouse.machinery.times import format_micro_time
from pilothouse.plane import etcd_store
from pilothouse.plane.older_servers import older_server_warning
from pilothouse.storage import MemoryStore, Record, Retention, Store
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore

_NOW = datetime.datetime(2026, 11, 28, 12, tzinfo=datetime.UTC)
_OLD = {"flowcontrol.apiserver.k8s.io/flowschemas": "flowcontrol.apiserver.k8s.io/v1beta1"}


def _lease(name: str, age: float) -> Record:
    renewed = format_micro_time(_NOW - datetime.timedelta(seconds=age))
    value = msgspec.json.encode({"metadata": {"name": name}, "spec": {"renewTime": renewed}})
    return Record(f"coordination.k8s.io/leases/kube-system/{name}", value, 1, 1)


_ALIVE = Record("/masterleases/10.0.0.5", b"{}", 1, 1)
_OTHER = server_name("another-host")


@pytest.mark.parametrize(
    ("records", "older", "warns"),
    [
        pytest.param([_ALIVE], _OLD, True, id="alive without an identity lease: before v1.26"),
        pytest.param([_ALIVE, _lease(own_name(), 3600.0)], _OLD, True, id="old identity lease without holder"),
        pytest.param([_ALIVE, _lease(_OTHER, 5.0)], _OLD, True, id="an identity lease does not name the release"),
        pytest.param([_ALIVE, _lease(own_name(), 20.0)], _OLD, False, id="this server was restarted"),
        pytest.param([], _OLD, False, id="no server alive: upgraded cluster"),
        pytest.param([_ALIVE], {}, False, id="equal storage versions"),
        pytest.param(
            [_ALIVE], {"batch/cronjobs": "batch/v1beta1"}, False, id="resource that the server does not update"
        ),
        pytest.param([_ALIVE, Record(_lease(_OTHER, 0).key, b"[", 1, 1)], _OLD, True, id="a malformed lease"),
    ],
)
async def test_warning(env: Env, records: list[Record], older: dict[str, str], warns: bool) -> None:
    result = older_server_warning(MemoryStore(env, records=records, revision=1), older, _NOW)
    assert (result is not None) == warns
    if result is not None:
        assert result["servers"] == "10.0.0.5"
        assert "v1.29" in result["because"]


async def test_the_warning_names_what_is_stored_in_older_versions(env: Env) -> None:
    older = {"discovery.k8s.io/endpointslices": "discovery.k8s.io/v1beta1", **_OLD}
    result = older_server_warning(MemoryStore(env, records=[_ALIVE], revision=1), older, _NOW)
    assert result is not None
    slices, schemas = result["stored"].split(", ")
    assert slices == "endpointslices in discovery.k8s.io/v1beta1"
    assert schemas == "flowschemas in flowcontrol.apiserver.k8s.io/v1beta1"


def test_the_codec_knows_what_was_stored_in_another_version() -> None:
    codec = ObjectCodec()
    obj: dict[str, Any] = {"metadata": {"name": "a", "uid": "u", "namespace": "d"}, "addressType": "IPv4"}
    key = "discovery.k8s.io/endpointslices/d/a"
    for version in ("v1", "v1beta1"):
        api_version = f"discovery.k8s.io/{version}"
        data = marshal(_message(api_version, "EndpointSlice"), obj)
        codec.decode(key, protobuf.envelope(api_version, "EndpointSlice", data), 1)
        assert codec.older == (
            {} if version == "v1" else {"discovery.k8s.io/endpointslices": "discovery.k8s.io/v1beta1"}
        )


async def test_it_is_logged_when_the_store_was_read(
    env: Env, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read(env: Env, _options: object, _keys: object, codec: ObjectCodec, **_more: object) -> Store:
        codec.older.update(_OLD)
        return MemoryStore(env, records=[_ALIVE], revision=1)

    monkeypatch.setattr(EtcdStore, "open", read)
    etcd_store.open_store(env, EtcdOptions(servers=("http://127.0.0.1:1",)), Retention())
    (line,) = caplog.messages
    assert line.startswith("Another API server on this etcd may be too old to read what this one writes")
