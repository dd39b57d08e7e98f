"""The ConfigMap ``kube-root-ca.crt`` in every namespace.

Rows mirror ``pkg/controller/certificates/rootcacertpublisher/publisher_test.go`` of v1.36.
"""

import asyncio
from pathlib import Path

import pytest
from tests.controllers.node_world import World, started
from tests.tables import cases

from pilothouse.api.core import ROOT_CA_CONFIG_MAP, ConfigMap
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.identity.root_ca_certificate_publisher import DESCRIPTOR, RootCaOptions
from pilothouse.controllers.identity.root_ca_certificate_publisher.controller import (
    ANNOTATION,
    DESCRIPTION,
    KEY,
    is_up_to_date,
)
from pilothouse.controllers.shared.root_authority import read_authority
from pilothouse.runtime.errors import CannotRun

MAPS = "/api/v1/namespaces/default/configmaps"
BUNDLE = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"


@cases(
    "data, annotations, expected",
    {
        "up to date": ({KEY: "x"}, {ANNOTATION: DESCRIPTION}, True),
        "different description": ({KEY: "x"}, {ANNOTATION: "mine"}, True),
        "missing description": ({KEY: "x"}, {}, False),
        "different bundle": ({KEY: "y"}, {ANNOTATION: DESCRIPTION}, False),
        "additional data": ({KEY: "x", "more": "y"}, {ANNOTATION: DESCRIPTION}, False),
        "no data": ({}, {ANNOTATION: DESCRIPTION}, False),
    },
)
def test_sync_config_map(data: dict[str, str], annotations: dict[str, str], expected: bool) -> None:
    assert is_up_to_date(ConfigMap(metadata=ObjectMeta(annotations=annotations), data=data), "x") is expected


world = started(DESCRIPTOR, RootCaOptions(authority=BUNDLE), seconds=1.0)


async def test_changed_config_map_is_restored_and_keeps_other_metadata(world: World) -> None:
    await world.merge(f"{MAPS}/{ROOT_CA_CONFIG_MAP}", {"metadata": {"labels": {"a": "b"}}, "binaryData": {"z": "eA=="}})
    await asyncio.sleep(1)
    assert world.requests() == []
    await world.merge(
        f"{MAPS}/{ROOT_CA_CONFIG_MAP}", {"data": {KEY: "x", "more": "y"}, "metadata": {"annotations": {"q": "r"}}}
    )
    await asyncio.sleep(1)
    assert world.requests() == [f"update configmaps {ROOT_CA_CONFIG_MAP}"]
    obj = await world.must_get(f"{MAPS}/{ROOT_CA_CONFIG_MAP}")
    assert (obj["data"], obj["binaryData"]) == ({KEY: BUNDLE}, {"z": "eA=="})
    assert obj["metadata"]["labels"] == {"a": "b"}
    assert obj["metadata"]["annotations"] == {ANNOTATION: DESCRIPTION, "q": "r"}


async def test_config_map_is_created_for_new_namespaces_and_recreated(world: World) -> None:
    await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "later"}})
    await world.delete(f"{MAPS}/{ROOT_CA_CONFIG_MAP}")
    await asyncio.sleep(1)
    assert sorted(world.requests()) == ["create configmaps "] * 2
    for namespace in ("later", "default"):
        obj = await world.must_get(f"/api/v1/namespaces/{namespace}/configmaps/{ROOT_CA_CONFIG_MAP}")
        assert obj["data"] == {KEY: BUNDLE}


async def test_other_config_maps_and_terminating_namespaces_are_ignored(world: World) -> None:
    await world.request("POST", MAPS, {"metadata": {"name": "other"}, "data": {"a": "b"}})
    await world.merge(f"{MAPS}/other", {"data": {"a": "c"}})
    await world.delete(f"{MAPS}/other")
    await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "brief", "finalizers": ["a.b/c"]}})
    await asyncio.sleep(1)
    world.seen.clear()
    await world.delete("/api/v1/namespaces/brief")
    await world.merge("/api/v1/namespaces/brief", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(60)
    assert world.requests() == []


async def test_failed_sync_is_retried_and_counted(world: World) -> None:
    world.faults.add(Rule(fail(500), verb="create", resource="configmaps", nth=1))
    await world.delete(f"{MAPS}/{ROOT_CA_CONFIG_MAP}")
    await asyncio.sleep(5)
    assert world.requests() == ["create configmaps "] * 2
    text = world.metrics.exposition()
    assert 'root_ca_cert_publisher_sync_total{code="500"} 1' in text
    assert 'root_ca_cert_publisher_sync_duration_seconds_count{code="500"} 1' in text


def test_root_ca_file_takes_precedence_and_must_be_valid(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(BUNDLE)
    assert read_authority(str(file), "x") == BUNDLE
    assert read_authority("", "x") == "x"
    file.write_text("no certificate")
    with pytest.raises(CannotRun, match="error parsing root-ca-file at"):
        read_authority(str(file), "")
    with pytest.raises(CannotRun, match=r"absent: open .*absent: no such file or directory$"):
        read_authority(str(tmp_path / "absent"), "")
