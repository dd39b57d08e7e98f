"""Metrics of admission phases: counts and times of plugins that wait or reject."""

import asyncio

import pytest
from tests.apiserver.api import CONFIG_MAPS, Api
from tests.controllermanager.metric_table import total

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.errors import bad_request
from pilothouse.apiserver.metrics import ServerMetrics
from pilothouse.env import Env

NAME = "apiserver_admission_controller_admission_duration_seconds"


class Waits(Plugin):
    """Waits for a given time, and rejects names that begin with ``bad``."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self.seconds = seconds

    async def _wait(self, write: AdmissionAttributes) -> None:
        await asyncio.sleep(self.seconds)
        if write.name.startswith("bad"):
            raise bad_request("a bad name")

    def validate(self, write: AdmissionAttributes) -> object:  # type: ignore[override]
        return self._wait(write)


class Passes(Plugin):
    """Admits everything immediately."""

    def __init__(self, name: str) -> None:
        self.name = name

    def validate(self, write: AdmissionAttributes) -> None:
        """Pass."""


@pytest.fixture
async def api(env: Env) -> Api:
    api = Api(env)
    core = api.server.core
    core.metrics = ServerMetrics(env.perf_counter, core.store, lambda: core.table)
    core.admission.metrics = core.metrics.admission
    core.admission.plugins[:] = [
        Passes("First"),
        Waits("Slow", 3.0),
        Passes("Middle"),
        Waits("Slower", 20.0),
        Passes(""),
    ]
    return api


def page(api: Api) -> str:
    assert api.server.core.metrics is not None
    return api.server.core.metrics.response().body.decode()


def counted(text: str, name: str, *, rejected: str = "false", le: str = "") -> float:
    labels = {"name": name, "type": "validate", "operation": "CREATE", "rejected": rejected}
    return total(text, f"{NAME}_bucket", **labels, le=le) if le else total(text, f"{NAME}_count", **labels)


async def test_waiting_plugins_are_timed(api: Api) -> None:
    assert (await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})).status == 201
    text = page(api)
    assert {name: counted(text, name) for name in ("First", "Slow", "Middle", "Slower")} == {
        "First": 1, "Slow": 1, "Middle": 1, "Slower": 1,
    }  # fmt: skip
    assert [counted(text, name, le="0.005") for name in ("First", "Slow", "Middle", "Slower")] == [1, 0, 1, 0]
    assert total(text, f"{NAME}_sum", name="Slow") == pytest.approx(3.0)
    assert total(text, f"{NAME}_sum", name="Slower") == pytest.approx(20.0)
    assert total(text, f"{NAME}_sum", name="First") == pytest.approx(0.0, abs=0.001)
    step = "apiserver_admission_step_admission_duration_seconds_sum"
    assert total(text, step, type="validate", rejected="false") == pytest.approx(23.0)
    assert 'name=""' not in text


async def test_plugins_after_a_rejection_are_not_counted(api: Api) -> None:
    assert (await api.post(CONFIG_MAPS, {"metadata": {"name": "bad"}})).status == 400
    text = page(api)
    assert counted(text, "First") == 1
    assert counted(text, "Slow", rejected="true") == 1
    assert counted(text, "Slow") + counted(text, "Middle") + counted(text, "Slower") == 0
    assert total(text, f"{NAME}_sum", name="Slow", rejected="true") == pytest.approx(3.0)


async def test_scrape_during_a_write_counts_nothing_twice(api: Api) -> None:
    writing = asyncio.ensure_future(api.post(CONFIG_MAPS, {"metadata": {"name": "a"}}))
    for _ in range(30):
        await asyncio.sleep(1)
        assert all(count >= 0 for count in (counted(page(api), name) for name in ("First", "Slow", "Middle", "Slower")))
    await writing
    assert [counted(page(api), name) for name in ("First", "Slow", "Middle", "Slower")] == [1, 1, 1, 1]


async def test_concurrent_writes_are_counted(api: Api) -> None:
    api.server.core.admission.plugins[:] = [Passes("First")]
    for number in range(600):
        await api.post(CONFIG_MAPS, {"metadata": {"name": f"m{number}"}})
    text = page(api)
    assert counted(text, "First") == 600
    assert total(text, "etcd_requests_total", operation="create", resource="configmaps") == 600
    assert total(text, "apiserver_request_total", verb="POST", resource="configmaps", code="201") == 600


async def test_replaced_plugins_keep_their_counts(api: Api) -> None:
    admission = api.server.core.admission
    admission.plugins[:] = [Passes("First")]
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    admission.plugins[:] = [Passes("Second")]
    await api.post(CONFIG_MAPS, {"metadata": {"name": "b"}})
    assert (counted(page(api), "First"), counted(page(api), "Second")) == (1, 1)
