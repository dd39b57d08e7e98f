"""Who signs client certificates: looked up when the port opens, and looked at again while it is open."""

import asyncio
from typing import Any, cast

import pytest
from tests.controllermanager.scripted import Scripted, status

from pilothouse.client.errors import ConfigError
from pilothouse.controllermanager import secure_port
from pilothouse.controllermanager.options import Serving
from pilothouse.env import Env
from pilothouse.env.virtual import run
from pilothouse.serving.tls import ServerTls

TARGET = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class ConfigMap:
    """The API server's ConfigMap."""

    def __init__(self, authority: str = "first") -> None:
        self.authority = authority
        self.refusal: tuple[int, Any] | None = None

    def __call__(self, method: str, target: str, _body: Any) -> tuple[int, Any]:
        assert (method, target) == ("GET", TARGET)
        return self.refusal or (200, {"data": {"client-ca-file": self.authority}})


class Trusting:
    """Stands in for ``ServerTls``: writes down whom it is told to trust."""

    def __init__(self) -> None:
        self.trusted: list[bytes] = []

    def trust(self, authority: bytes) -> None:
        if authority == b"garbage":
            raise ValueError("the client authority is not a PEM certificate")
        self.trusted.append(authority)


async def look_up(env: Env, server: Scripted | None, **changes: Any) -> bytes:
    client = server.client(env) if server is not None else None
    return await secure_port._client_authority(env, client, Serving(**changes))


def test_it_is_in_the_api_servers_config_map() -> None:
    async def main(env: Env) -> None:
        assert await look_up(env, Scripted(ConfigMap())) == b"first"
        assert await look_up(env, None) == b""
        assert await look_up(env, Scripted(ConfigMap()), authentication_skip_lookup=True) == b""

    run(main)


def test_an_api_server_that_comes_late_is_waited_for_ten_seconds() -> None:
    async def main(env: Env) -> None:
        server = Scripted(ConfigMap())
        server.down = True
        asyncio.get_running_loop().call_later(5, setattr, server, "down", False)
        assert await look_up(env, server) == b"first"
        server.down = True
        began = env.monotonic()
        with pytest.raises(ConfigError, match="--authentication-skip-lookup or"):
            await look_up(env, server)
        assert 10 <= env.monotonic() - began < 12

    run(main)


def test_a_refusal_ends_the_start_unless_it_is_tolerated() -> None:
    async def main(env: Env) -> None:
        config = ConfigMap()
        config.refusal = status(403, "Forbidden", "configmaps is forbidden")
        with pytest.raises(ConfigError, match="unable to load configmap kube-system/extension-"):
            await look_up(env, Scripted(config))
        assert env.monotonic() < 1
        assert await look_up(env, Scripted(config), authentication_tolerate_lookup_failure=True) == b""

    run(main)


def test_a_new_authority_counts_within_a_minute_and_failures_change_nothing() -> None:
    async def main(env: Env) -> None:
        config, tls = ConfigMap(), Trusting()
        server = Scripted(config)
        following = secure_port._follow(server.client(env), b"first", cast("ServerTls", tls))
        task = asyncio.get_running_loop().create_task(following)
        await asyncio.sleep(61)
        assert tls.trusted == []
        config.authority = "second"
        await asyncio.sleep(60)
        assert tls.trusted == [b"second"]
        config.authority = "garbage"
        await asyncio.sleep(60)
        server.down = True
        await asyncio.sleep(60)
        server.down, config.authority = False, "third"
        await asyncio.sleep(120)
        assert tls.trusted == [b"second", b"third"]
        task.cancel()

    run(main)
