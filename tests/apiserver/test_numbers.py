"""Numbers that no field can hold: refused where they come in, and no surprise where a store has them all the same."""

import json
import logging
from collections.abc import Iterator

import pytest
from tests.apiserver.api import JSON_PATCH, MERGE, STRATEGIC, Api, Object

from pilothouse.apiserver.resources import storage_prefix

SETS = "/apis/apps/v1/namespaces/default/daemonsets"
SELECTOR = {"matchLabels": {"app": "x"}}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
STATUS = {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}
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
async def test_no_request_brings_one_in(api: Api, number: str, bugs: list[logging.LogRecord]) -> None:
    def body(value: Object) -> bytes:
        return json.dumps(value).replace('"NUMBER"', number).encode()

    made = await api.made(SETS, daemon_set())
    status = {**STATUS, "numberReady": "NUMBER"}
    pointed = [{"op": "add", "path": "/status/numberReady", "value": "NUMBER"}]
    answers = [
        await api.put(f"{SETS}/d/status", body({**made, "status": status})),
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


async def test_one_that_a_store_has_is_an_internal_error(api: Api, bugs: list[logging.LogRecord]) -> None:
    made = await api.made(SETS, daemon_set())
    key = f"{storage_prefix('apps', 'daemonsets')}default/d"
    record = api.store.get(key)
    assert record is not None
    spoilt = record.value.replace(b'"numberReady":0', b'"numberReady":1e99999')
    assert spoilt != record.value
    await api.store.commit(api.store.stage(key, lambda _revision: spoilt, expected=record.revision))
    *answers, deleted = [
        await api.put(f"{SETS}/d/status", {**made, "status": STATUS}),
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
