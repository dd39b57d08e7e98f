"""Automatic reload of the configuration file; an unusable file has no effect."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pilothouse.apiserver.encryption_config.config import load_config
from pilothouse.apiserver.encryption_config.controller import ReloadController
from pilothouse.apiserver.storage_codec import resource_of
from pilothouse.env import Env
from pilothouse.storage.encryption.at_rest import EncryptionAtRest
from pilothouse.storage.encryption.metrics import EncryptionMetrics, hash_of

KEY, ETCD_KEY = "/secrets/default/x", b"/registry/secrets/default/x"
RELOADS = "apiserver_encryption_config_controller_automatic_reloads_total"


class ReloadedEncryption:
    """A configuration file, and the encryption and controller that use it."""

    def __init__(self, env: Env, path: Path) -> None:
        self.path = path
        self.metrics = EncryptionMetrics("server", env.timestamp)
        self.write("one")
        load = partial(load_config, env, str(path), self.metrics, reload=True)
        loaded = load()
        self.at_rest = EncryptionAtRest(loaded.providers, resource_of)
        self.controller = ReloadController(str(path), self.at_rest, loaded.content_hash, load, self.metrics)

    def write(self, *keys: str, providers: tuple[Any, ...] = ()) -> None:
        key_entries = [{"name": key, "secret": "MDEyMzQ1Njc4OWFiY2RlZg=="} for key in keys]
        self.path.write_text(
            json.dumps(
                {
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "EncryptionConfiguration",
                    "resources": [
                        {"resources": ["secrets"], "providers": [*providers, {"aesgcm": {"keys": key_entries}}]}
                    ],
                }
            )
        )

    @property
    def write_key(self) -> str:
        return self.at_rest.to_storage(KEY, ETCD_KEY, b"value").split(b":")[4].decode()

    def reloads(self, status: str) -> float:
        return self.metrics.registry.value(RELOADS, status, hash_of("server"))


@pytest.fixture
async def reloaded(env: Env, tmp_path: Path) -> ReloadedEncryption:
    return ReloadedEncryption(env, tmp_path / "config.json")


async def test_changed_file_is_reloaded_within_a_minute(reloaded: ReloadedEncryption) -> None:
    changes: list[str] = []
    reloaded.at_rest.on_change.append(lambda: changes.append(reloaded.write_key))
    running = asyncio.create_task(reloaded.controller.run())
    await asyncio.sleep(90)
    assert (reloaded.write_key, changes) == ("one", [])
    stored = reloaded.at_rest.to_storage(KEY, ETCD_KEY, b"value")
    reloaded.write("two", "one")
    await asyncio.sleep(61)
    assert (reloaded.write_key, changes) == ("two", ["two"])
    assert await reloaded.at_rest.read(KEY, ETCD_KEY, stored) == (b"value", True)
    assert (reloaded.reloads("success"), reloaded.reloads("failure")) == (1, 0)
    exposition = reloaded.metrics.registry.exposition()
    assert exposition.count("apiserver_encryption_config_controller_last_config_info{") == 1
    running.cancel()
    await reloaded.at_rest.close()


async def test_unusable_file_is_ignored_and_reread(
    reloaded: ReloadedEncryption, caplog: pytest.LogCaptureFixture
) -> None:
    reloaded.write()
    running = asyncio.create_task(reloaded.controller.run())
    await asyncio.sleep(5)
    assert reloaded.write_key == "one"
    assert "at least one keys is required" in caplog.text
    assert reloaded.reloads("failure") == 3  # at once, after one second, and after two more
    reloaded.write("two")
    await asyncio.sleep(5)
    assert reloaded.write_key == "two"
    running.cancel()
    await reloaded.at_rest.close()
