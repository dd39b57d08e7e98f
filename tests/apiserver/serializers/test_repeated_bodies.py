"""Bodies that arrive again and again are decoded once, and nobody notices."""

import json
from typing import Any

from tests.apiserver.api import PODS, Api

from pilothouse.api.schema import definition_of
from pilothouse.apiserver.serializers import repeated_bodies
from pilothouse.apiserver.serializers.repeated_bodies import MAX_BYTES, RepeatedBodies

POD = definition_of("", "v1", "Pod")
BODY = b'{"metadata":{"generateName":"a-"},"spec":{"containers":[{"name":"c","image":"i"}]}}'
TEMPLATE: dict[str, Any] = {"metadata": {"generateName": "a-", "labels": {"a": "b"}}, **json.loads(BODY)}


def test_the_second_body_is_kept() -> None:
    bodies = RepeatedBodies()
    document = json.loads(BODY)
    for expected in (None, None, document):
        assert bodies.get(BODY, POD) == expected
        bodies.put(BODY, POD, document)
    assert bodies.get(BODY, definition_of("", "v1", "ConfigMap")) is None
    copy = bodies.get(bytes(bytearray(BODY)), POD)
    assert copy is not None
    copy["spec"]["containers"].clear()
    assert bodies.get(BODY, POD) == document


def test_the_memory_is_bounded() -> None:
    bodies = RepeatedBodies()
    for number in range(5_000):
        for _ in range(2):
            bodies.put(b"%d" % number, POD, {})
    assert len(bodies._documents) == repeated_bodies._MAX_BODIES
    assert len(bodies._hashes) <= repeated_bodies._MAX_HASHES
    large = b" " * MAX_BYTES + b"{}"
    for _ in range(3):
        bodies.put(large, POD, {})
    assert bodies.get(large, POD) is None


async def test_pods_of_equal_bodies(api: Api) -> None:
    created = [await api.post(PODS, TEMPLATE) for _ in range(4)]
    assert {answer.status for answer in created} == {201}
    assert len({answer.meta["name"] for answer in created}) == 4
    for answer in created:
        for field in ("name", "uid", "resourceVersion"):
            del answer.body["metadata"][field]
    assert all(answer.body == created[0].body for answer in created)


async def test_warnings_and_errors_are_repeated(api: Api) -> None:
    unknown = {**TEMPLATE, "spek": 1}
    for _ in range(3):
        answer = await api.post(PODS, unknown)
        assert "unknown field" in answer.headers["warning"]
    invalid = {**TEMPLATE, "spec": {"containers": [{"name": "C", "image": "i"}]}}
    for _ in range(3):
        assert (await api.post(PODS, invalid)).status == 422
    wrong = {**TEMPLATE, "spec": {"containers": [{"name": 1}]}}
    for _ in range(3):
        assert (await api.post(PODS, wrong)).status == 400
