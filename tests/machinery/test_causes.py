"""Causes of writes, and the header that carries them."""

import asyncio

import pytest
from tests.tables import cases

from pilothouse.api.meta import ObjectMeta
from pilothouse.machinery.causes import (
    MAX_DECISION,
    MAX_TRIGGERS,
    Cause,
    InvalidCause,
    Trigger,
    Triggers,
    begin_sync,
    cause_header,
    current_cause,
    read_cause,
    record_decision,
)


def _claimed(cause: str) -> Cause | None:
    return read_cause({"pilothouse-cause": cause})


async def test_no_cause_outside_a_sync() -> None:
    assert current_cause() is None
    assert cause_header() == b""


async def test_decision_is_reset_by_the_next_sync() -> None:
    begin_sync("replicaset", "default/web")
    record_decision("1 of 2 pods is there")
    assert current_cause() == Cause("replicaset", "default/web", "1 of 2 pods is there")
    begin_sync("replicaset", "default/other")
    assert current_cause() == Cause("replicaset", "default/other")


async def test_tasks_inherit_the_sync_and_decide_for_themselves() -> None:
    begin_sync("job", "default/pi")

    async def decide(text: str) -> Cause | None:
        record_decision(text)
        await asyncio.sleep(0)
        return current_cause()

    result = await asyncio.gather(decide("first"), decide("second"))
    assert [item.decision for item in result if item] == ["first", "second"]
    assert current_cause() == Cause("job", "default/pi")


async def test_header_round_trip() -> None:
    triggers = Triggers()
    for number in range(MAX_TRIGGERS + 2):
        triggers.add("MODIFIED", "pods", ObjectMeta(name=f"web-{number}", namespace="default", resource_version="12"))
    begin_sync("replicaset", "default/wéb", triggers)
    record_decision("„two” of 3\r\nX-Remote-User: admin")
    name, _, value = cause_header().partition(b": ")
    assert value.isascii()
    assert value.count(b"\n") == 1
    assert read_cause({name.decode().lower(): value.decode().strip()}) == current_cause()
    result = current_cause()
    assert result is not None
    assert result.triggers[0] == Trigger("MODIFIED", "pods", "default", "web-0", "12")
    assert (len(result.triggers), result.more) == (MAX_TRIGGERS, 2)
    assert [trigger.name for trigger in result.triggers] == [f"web-{number}" for number in (0, 1, 4, 5, 6, 7, 8, 9)]


async def test_largest_cause_is_accepted() -> None:
    triggers = Triggers()
    for _ in range(MAX_TRIGGERS):
        triggers.add("MODIFIED", "p" * 253, ObjectMeta(name="n" * 253, namespace="s" * 63, resource_version="1" * 20))
    begin_sync("c" * 63, "k" * 1000, triggers)
    record_decision("d" * 1000)
    value = cause_header().partition(b": ")[2].decode().strip()
    result = _claimed(value)
    assert result is not None
    assert len(result.decision) == MAX_DECISION
    assert result.decision.endswith("…")


@cases(
    "text, reason",
    {
        "not JSON": ("because", "JSON is malformed"),
        "missing component": ("{}", "missing required field `component`"),
        "a long name": (f'{{"component":"{"x" * 321}"}}', "at most 8 triggers"),
        "a long decision": (f'{{"component":"x","decision":"{"x" * 501}"}}', "at most 8 triggers"),
        "too long to be read": (f'{{"component":"{"x" * 10_000}"}}', "10016 characters, at most 8192 are read"),
        "negative count": ('{"component":"x","more":-1}', "more must be between 0 and 2147483647"),
        "count out of range": (f'{{"component":"x","more":1{"0" * 30}}}', "more"),
        "nine triggers": (f'{{"component":"x","triggers":[{",".join(["{}"] * 9)}]}}', "missing required field"),
    },
)
def test_invalid_causes(text: str, reason: str) -> None:
    with pytest.raises(InvalidCause, match=reason):
        _claimed(text)


def test_retried_sync_keeps_its_triggers() -> None:
    triggers = Triggers()
    triggers.add("ADDED", "pods", ObjectMeta(name="web", namespace="default", resource_version="7"))
    again = triggers.retried().retried()
    assert again.built() == (Trigger("RETRY"), Trigger("ADDED", "pods", "default", "web", "7"))
