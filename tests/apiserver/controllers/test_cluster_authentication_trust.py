"""The ConfigMap extension-apiserver-authentication (kubernetes
``pkg/controlplane/controller/clusterauthenticationtrust``, v1.36)."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.apiserver.api import Api, Object

from pilothouse.apiserver.controllers.cluster_authentication_trust import ClusterAuthenticationTrustController
from pilothouse.env import Env, TaskGroup

MAPS = "/api/v1/namespaces/kube-system/configmaps"
PATH = f"{MAPS}/extension-apiserver-authentication"


def pem(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


OURS, THEIRS = pem("b3Vycw=="), pem("dGhlaXJz")


async def running(env: Env, scenario: Callable[[Api], Awaitable[None]]) -> None:
    """On a server with an authority, at work in the background."""
    api = Api(env)
    api.server.background["authentication"] = ClusterAuthenticationTrustController(api.server, OURS.encode()).run
    async with TaskGroup("server") as group:
        group.start(api.server.run())
        await asyncio.sleep(0.1)
        await scenario(api)
        group.cancel()


async def data(api: Api) -> Object:
    answer = await api.get(PATH)
    assert answer.status == 200, answer.text
    result: Object = answer.body["data"]
    return result


async def test_config_map_has_the_client_ca_and_no_request_header_fields(env: Env) -> None:
    async def scenario(api: Api) -> None:
        assert await data(api) == {"client-ca-file": OURS}

    await running(env, scenario)


async def test_sync_creates_the_config_map_once(env: Env) -> None:
    api = Api(env)
    config = ClusterAuthenticationTrustController(api.server, OURS.encode())
    await config.sync()
    assert await data(api) == {"client-ca-file": OURS}
    revision = (await api.get(PATH)).meta["resourceVersion"]
    await config.sync()
    assert (await api.get(PATH)).meta["resourceVersion"] == revision


async def test_deleted_config_map_is_recreated(env: Env) -> None:
    async def scenario(api: Api) -> None:
        await api.delete(PATH)
        await asyncio.sleep(0.1)
        assert await data(api) == {"client-ca-file": OURS}
        await api.patch(PATH, {"data": None})
        await asyncio.sleep(0.1)
        assert await data(api) == {"client-ca-file": OURS}

    await running(env, scenario)


async def test_other_data_is_kept(env: Env) -> None:
    async def scenario(api: Api) -> None:
        proxies = {"requestheader-allowed-names": '["front-proxy"]'}
        await api.patch(PATH, {"data": {"client-ca-file": f"# theirs\n{THEIRS}", **proxies}})
        await asyncio.sleep(0.1)
        assert await data(api) == {"client-ca-file": THEIRS + OURS, **proxies}

    await running(env, scenario)
