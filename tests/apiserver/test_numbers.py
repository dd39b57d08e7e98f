"""Numbers out of the range of their fields, in requests and in the store, and out of the range of Python's clock."""

import datetime
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, JSON_PATCH, MERGE, PODS, STRATEGIC, Api, Object, pod
from tests.tables import cases

from pilothouse.apiserver.resources import storage_prefix

SETS = "/apis/apps/v1/namespaces/default/daemonsets"
SELECTOR = {"matchLabels": {"app": "x"}}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
STATUS = {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}
LARGEST = 2**63 - 1
DIGITS = "9" * 5000
OUT_OF_RANGE = f'strconv.ParseUint: parsing "{DIGITS}": value out of range'
NUMBERS = ["1e99999", "-1e400", "1e20", "99999999999999999999", "1.5", "NaN"]


def daemon_set() -> Object:
    return {"metadata": {"name": "d"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}}


@pytest.fixture
def bugs() -> Iterator[list[logging.LogRecord]]:
    """Exceptions that the server did not expect."""
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                records.append(record)

    keep, logger = Keep(), logging.getLogger("pilothouse")
    logger.addHandler(keep)
    yield records
    logger.removeHandler(keep)


@pytest.mark.parametrize("number", NUMBERS)
async def test_out_of_range_numbers_are_rejected(api: Api, number: str, bugs: list[logging.LogRecord]) -> None:
    def body(value: Object) -> bytes:
        return json.dumps(value).replace('"NUMBER"', number).encode()

    created = await api.create(SETS, daemon_set())
    status = {**STATUS, "numberReady": "NUMBER"}
    pointed = [{"op": "add", "path": "/status/numberReady", "value": "NUMBER"}]
    answers = [
        await api.put(f"{SETS}/d/status", body({**created, "status": status})),
        await api.patch(f"{SETS}/d/status", body({"status": status}), MERGE),
        await api.patch(f"{SETS}/d/status", body({"status": status}), STRATEGIC),
        await api.patch(f"{SETS}/d/status", json.dumps(pointed).replace('"NUMBER"', number).encode(), JSON_PATCH),
        await api.post(SETS, body({**daemon_set(), "metadata": {"name": "e"}, "status": status})),
    ]
    # Go's conversion, which a strategic merge patch goes through, keeps the lowest bits of a whole number.
    converted = answers.pop(2)
    assert converted.status in (400, 422) or abs(converted.body["status"]["numberReady"]) < 1 << 31
    assert [answer.status for answer in answers if answer.status not in (400, 422)] == []
    assert bugs == []


@pytest.mark.not_on("etcd", reason="what no server writes can not be encoded")
async def test_stored_out_of_range_number_is_an_internal_error(api: Api, bugs: list[logging.LogRecord]) -> None:
    created = await api.create(SETS, daemon_set())
    key = f"{storage_prefix('apps', 'daemonsets')}default/d"
    record = api.store.get(key)
    assert record is not None
    spoilt = record.value.replace(b'"numberReady":0', b'"numberReady":1e99999')
    assert spoilt != record.value
    await api.store.commit(api.store.stage(key, lambda _revision: spoilt, expected=record.revision))
    *answers, deleted = [
        await api.put(f"{SETS}/d/status", {**created, "status": STATUS}),
        await api.patch(f"{SETS}/d/status", {"status": STATUS}),
        await api.patch(f"{SETS}/d", {"metadata": {"labels": {"a": "b"}}}),
        await api.delete(f"{SETS}/d"),
    ]
    for answer in answers:
        assert (answer.status, answer.body["reason"]) == (500, "InternalError")
        assert answer.message.startswith(
            "Internal error occurred: StorageError: corrupt object, Code: 7, Key: apps/daemonsets/"
        )
        assert "default/d, ResourceVersion: 0, AdditionalErrorMsg: Number out of range" in answer.message
    assert deleted.status in (200, 500)
    assert bugs == []


@cases(
    "method, target, body, code, message",
    {
        "update with resourceVersion out of range": (
            "PUT",
            f"{CONFIG_MAPS}/c",
            {"metadata": {"name": "c", "resourceVersion": DIGITS}},
            500,
            OUT_OF_RANGE,
        ),
        "create ignores the resourceVersion": (
            "POST",
            CONFIG_MAPS,
            {"metadata": {"name": "d", "resourceVersion": DIGITS}},
            201,
            "",
        ),
        "a list": (
            "GET",
            f"{CONFIG_MAPS}?resourceVersion={DIGITS}",
            None,
            400,
            f'invalid resource version: resourceVersion: Invalid value: "{DIGITS}": {OUT_OF_RANGE}',
        ),
        "a watch": (
            "GET",
            f"{CONFIG_MAPS}?watch=true&resourceVersion={DIGITS}",
            None,
            500,
            f'resourceVersion: Invalid value: "{DIGITS}": {OUT_OF_RANGE}',
        ),
        "a get": (
            "GET",
            f"{CONFIG_MAPS}/c?resourceVersion={DIGITS}",
            None,
            500,
            f'resourceVersion: Invalid value: "{DIGITS}": {OUT_OF_RANGE}',
        ),
        "a limit": (
            "GET",
            f"{CONFIG_MAPS}?limit={DIGITS}",
            None,
            400,
            f'strconv.ParseInt: parsing "{DIGITS}": value out of range',
        ),
    },
)
async def test_very_long_resource_versions(
    api: Api, method: str, target: str, body: Any, code: int, message: str
) -> None:
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    answer = await api.request(method, target, body)
    assert (answer.status, answer.message) == (code, message)


async def test_grace_period_overflows_as_in_go(api: Api) -> None:
    """``time.Duration(seconds) * time.Second`` of int64's largest number is a second less than nothing."""
    await api.create(PODS, pod(spec={}, terminationGracePeriodSeconds=LARGEST, nodeName="n"))
    before = api.env.now()
    deleted = await api.delete(f"{PODS}/p")
    assert deleted.status == 200, deleted.text
    marked = datetime.datetime.fromisoformat(deleted.meta["deletionTimestamp"])
    assert marked == before - datetime.timedelta(seconds=1)
    assert deleted.meta["deletionGracePeriodSeconds"] == LARGEST
    again = await api.delete(f"{PODS}/p?gracePeriodSeconds=10")
    assert again.status == 200, again.text
    assert (await api.get(f"{PODS}/p")).meta["deletionGracePeriodSeconds"] == 10


@pytest.mark.parametrize("seconds", [-(2**63), -1, 0, 9_223_372_036, 9_223_372_037, LARGEST])
async def test_pod_with_any_grace_period_can_be_deleted(api: Api, seconds: int) -> None:
    await api.create(PODS, pod(terminationGracePeriodSeconds=seconds, nodeName="n"))
    assert (await api.delete(f"{PODS}/p")).status == 200
    assert (await api.delete(f"{PODS}/p")).status in (200, 404)
    assert (await api.delete(f"{PODS}/p?gracePeriodSeconds=0")).status in (200, 404)


async def test_generation_overflows_as_in_go(api: Api) -> None:
    """Claims keep the generation of the request; a number out of range could not be decoded again."""
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    claim: Object = {
        "metadata": {"name": "c", "generation": LARGEST, "finalizers": ["example.com/wait"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
    }
    await api.create(claims, claim)
    assert (await api.delete(f"{claims}/c")).meta["generation"] == -LARGEST - 1
    freed = await api.patch(f"{claims}/c", {"metadata": {"finalizers": None}})
    assert freed.status == 200, freed.text
    assert (await api.get(f"{claims}/c")).status == 404
