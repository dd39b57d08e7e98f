"""Client CAs of the secure port: from files and from the cluster, and changes of either."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.controllermanager.certificates import OTHERS, PROXIES, USERS
from tests.runtime.cluster import Cluster

from pilothouse.client.errors import AlreadyExists, ConfigError
from pilothouse.controllermanager.client_trust import CONFIG_MAPS, ClientTrust, ConfigMap
from pilothouse.controllermanager.options import RequestHeader, Serving
from pilothouse.env import Env, TaskGroup
from pilothouse.serving.certificates import Pair


def cluster_says(*authorities: Pair, **more: str) -> ConfigMap:
    return ConfigMap(data={"client-ca-file": "".join(a.certificate.decode() for a in authorities), **more})


async def test_files_take_precedence_over_the_config_map(env: Env, tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(USERS.certificate)
    trust = ClientTrust(env, Serving(client_ca_file=str(file)))
    assert not trust.has_all_files
    trust.apply_config_map(cluster_says(OTHERS, **{"requestheader-client-ca-file": PROXIES.certificate.decode()}))
    assert trust.pem == USERS.certificate + b"\n" + PROXIES.certificate
    both = Serving(client_ca_file=str(file), request_header=RequestHeader(client_ca_file=str(file)))
    assert ClientTrust(env, both).has_all_files


async def test_changed_files_are_reloaded(env: Env, tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(USERS.certificate)
    changes: list[bytes] = []
    trust = ClientTrust(env, Serving(client_ca_file=str(file)), changes.append)
    trust.reload()
    assert changes == []
    file.write_bytes(OTHERS.certificate)
    trust.reload()
    assert changes == [], "not more than once a second"
    await asyncio.sleep(1)
    trust.reload()
    assert changes == [OTHERS.certificate]
    file.write_bytes(b"half a file")
    await asyncio.sleep(1)
    trust.reload()
    assert trust.pem == OTHERS.certificate
    file.write_bytes(USERS.certificate)
    await asyncio.sleep(1)
    trust.reload()
    assert changes[1:] == [USERS.certificate]


@pytest.mark.parametrize("content", [None, b"nonsense"])
async def test_error_names_an_unusable_file(env: Env, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "ca.crt").write_bytes(content)
    for serving in (
        Serving(client_ca_file=str(tmp_path / "ca.crt")),
        Serving(request_header=RequestHeader(client_ca_file=str(tmp_path / "ca.crt"))),
    ):
        with pytest.raises(ConfigError, match=r"client-ca-file .*ca\.crt"):
            ClientTrust(env, serving)


async def test_config_map_changes_are_applied(env: Env) -> None:
    cluster = Cluster(env)
    meta = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}

    async def says(*authorities: Pair, **more: str) -> None:
        data = cluster_says(*authorities, **more).data
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        try:
            await cluster.admin().create(CONFIG_MAPS, body, "kube-system")
        except AlreadyExists:
            encoded = msgspec.Raw(msgspec.json.encode(body))
            await cluster.admin().update(CONFIG_MAPS, meta["name"], encoded, "kube-system")
        await asyncio.sleep(0.1)

    changes: list[bytes] = []
    trust = ClientTrust(env, Serving(), changes.append)
    async with TaskGroup("test") as group:
        trust.watch_config_map(cluster.client(), group)
        await asyncio.sleep(1)
        await says(USERS, OTHERS)
        assert changes[-1] == USERS.certificate + OTHERS.certificate
        await says(OTHERS)
        assert changes[-1] == OTHERS.certificate, "one that was taken away counts no more"
        count = len(changes)
        await says(OTHERS, unrelated="x")
        assert len(changes) == count
        await says()
        assert trust.pem == OTHERS.certificate, "an empty bundle changes nothing"
        await says(OTHERS, **{"requestheader-client-ca-file": "nonsense"})
        assert trust.proxies is None
        pem = PROXIES.certificate.decode()
        await says(OTHERS, **{"requestheader-client-ca-file": pem, "requestheader-allowed-names": "not json"})
        assert trust.proxies is None
        await says(OTHERS, **{"requestheader-client-ca-file": pem, "requestheader-allowed-names": '["a"]'})
        assert trust.proxies is not None
        assert trust.proxies.allowed_names == ("a",)
        assert changes[-1] == OTHERS.certificate + b"\n" + PROXIES.certificate
        group.cancel()
