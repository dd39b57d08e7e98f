"""The fast path for Lease renewals stores the same as a generic update.

A dry run takes the generic path. Each case sends a PUT as a dry run, and then without ``dryRun``.
"""

import asyncio
import json
from collections.abc import Callable

import pytest
from tests.apiserver.api import LEASES, Answer, Api, Object
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.endpoints import update
from pilothouse.apiserver.endpoints.renewal import renew
from pilothouse.env import Env
from pilothouse.machinery.times import format_micro_time, format_time

_LEASE = LEASES + "/a"
_KEY = "coordination.k8s.io/leases/default/a"
_RENEWED = "2026-01-01T00:00:10.000000Z"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each PUT of an existing Lease, whether it used the fast path."""
    received: list[bool] = []

    async def noted(*args: object) -> object:
        answer = await renew(*args)  # type: ignore[arg-type]
        received.append(answer is not None)
        return answer

    monkeypatch.setattr(update, "renew", noted)
    return received


def _lease(**metadata: object) -> Object:
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}
    return {"metadata": {"name": "a", **metadata}, "spec": spec}


def _stored(api: Api) -> bytes:
    record = api.store.get(_KEY)
    assert record is not None
    return record.value


async def _both(api: Api, body: bytes, **headers: str) -> tuple[Answer, Answer]:
    """The responses to a dry run and to the PUT itself."""
    dry = await api.request("PUT", _LEASE + "?dryRun=All", body, **headers)
    return dry, await api.request("PUT", _LEASE, body, **headers)


def _without_version(answer: Answer) -> str:
    if "metadata" in answer.body:
        answer.body["metadata"].pop("resourceVersion", None)
    return json.dumps(answer.body)


def _renewed(value: bytes) -> bytes:
    return value.replace(b'"renewTime":"2026-01-01T00:00:00.000000Z"', b'"renewTime":"%s"' % _RENEWED.encode())


_STRANGE = {"renewTime": "2026-01-01T00:00:00.000000Z", "time": "2026-01-01T00:00:00Z", "fieldsType": "x"}
_ODD = '"},"spec":{"renewTime":"2026-01-01T00:00:00.000000Z"'


@cases(
    "renewed, change, is_short",
    {
        "only the time": (_lease(), _renewed, True),
        "finalizers": (_lease(finalizers=["x.io/a"]), _renewed, True),
        "annotations that contain names of fields": (
            _lease(annotations=_STRANGE),
            lambda value: value[:-60] + _renewed(value[-60:]),
            True,
        ),
        "annotations that look like fields": (
            _lease(annotations={"spec": _ODD, "managedFields": _ODD}),
            _renewed,
            True,
        ),
        "unchanged renewTime": (_lease(), lambda value: value, False),
        "changed duration": (_lease(), lambda value: _renewed(value).replace(b'Seconds":40', b'Seconds":41'), False),
        "additional field": (_lease(), lambda value: _renewed(value)[:-2] + b',"strategy":"x"}}', False),
        "a space": (_lease(), lambda value: _renewed(value) + b" ", False),
        "an annotation, too": (_lease(annotations={"renewTime": "2026-01-01T00:00:00.000000Z"}), _renewed, False),
        "renewTime without microseconds": (
            _lease(),
            lambda value: _renewed(value).replace(b"10.000000Z", b"10Z"),
            False,
        ),
        "invalid date": (_lease(), lambda value: _renewed(value).replace(b"01-01T00:00:10", b"02-30T00:00:10"), False),
        "invalid time": (_lease(), lambda value: _renewed(value).replace(b":10.0", b":1x.0"), False),
        "another resourceVersion": (
            _lease(),
            lambda value: _renewed(value).replace(b'"resourceVersion":"', b'"resourceVersion":"9'),
            False,
        ),
    },
)
async def test_stored_lease_equals_a_generic_update(
    env: Env, short: list[bool], renewed: Object, change: Callable[[bytes], bytes], is_short: bool
) -> None:
    api = Api(env)
    await api.create(LEASES, renewed)
    await asyncio.sleep(5)
    dry, answer = await _both(api, change(_stored(api)))
    assert short == [False, is_short]
    assert (answer.status, _without_version(answer)) == (dry.status, _without_version(dry))
    if answer.status == 200:
        assert answer.text.encode() == _stored(api)


async def test_resource_version_and_managed_fields_time_are_updated(api: Api, short: list[bool]) -> None:
    first = await api.create(LEASES, _lease())
    await asyncio.sleep(5)
    answer = await api.put(_LEASE, _renewed(_stored(api)))
    assert short == [True]
    assert int(answer.meta["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1
    assert answer.meta["managedFields"][0]["time"] > first["metadata"]["managedFields"][0]["time"]
    assert answer.body["spec"]["renewTime"] == _RENEWED


async def test_another_manager_takes_ownership_of_renew_time(api: Api, short: list[bool]) -> None:
    await api.create(LEASES, _lease())
    dry, answer = await _both(api, _renewed(_stored(api)), **{"user-agent": "other/1"})
    assert _without_version(answer) == _without_version(dry)
    assert [entry["manager"] for entry in answer.meta["managedFields"]] == ["other", "test"]
    dry, answer = await _both(api, _stored(api).replace(b"10.000000Z", b"20.000000Z"))
    assert _without_version(answer) == _without_version(dry)
    assert short == [False] * 4


@cases("fields", {"no managed fields": None, "another field": {"f:spec": {"f:holderIdentity": {}}}})
async def test_non_owner_becomes_owner_of_renew_time(api: Api, short: list[bool], fields: Object | None) -> None:
    first = await api.create(LEASES, _lease())
    entry = first["metadata"]["managedFields"][0]
    first["metadata"]["managedFields"] = [{**entry, "fieldsV1": fields}] if fields else [{}]
    assert (await api.put(_LEASE, first)).status == 200
    short.clear()
    dry, answer = await _both(api, _renewed(_stored(api)))
    assert _without_version(answer) == _without_version(dry)
    assert short == [False, False]


async def test_terminating_lease(api: Api, short: list[bool]) -> None:
    await api.create(LEASES, _lease(finalizers=["x.io/a"]))
    await api.delete(_LEASE)
    dry, answer = await _both(api, _renewed(_stored(api)))
    assert (answer.status, _without_version(answer)) == (200, _without_version(dry))
    assert short == [False, False]


async def test_lease_stored_by_another_process_takes_the_generic_path(api: Api, short: list[bool]) -> None:
    await api.create(LEASES, _lease())
    api.server = ApiServer(api.env, api.store)
    api.transport = api.server.transport("admin", ("system:masters",), user_agent="test/1")
    await api.put(_LEASE, _renewed(_stored(api)))
    await api.put(_LEASE, _stored(api).replace(b"10.000000Z", b"20.000000Z"))
    assert short == [False, True]


async def test_object_reading_admission_plugins_run(api: Api, short: list[bool]) -> None:
    class Labels(Plugin):
        def admit(self, write: AdmissionAttributes) -> None:
            assert write.obj is not None
            write.obj["metadata"].setdefault("labels", {})["seen"] = write.operation

    await api.create(LEASES, _lease())
    api.server.core.admission.plugins.append(Labels())
    answer = await api.put(_LEASE, _renewed(_stored(api)))
    assert (answer.status, answer.meta["labels"], short) == (200, {"seen": "UPDATE"}, [False])


async def test_name_based_admission_plugins_may_reject(env: Env, short: list[bool]) -> None:
    api = Api(env, ServerOptions(admission_plugins=("NamespaceLifecycle", "NodeRestriction", "ResourceQuota")))
    target, key = _LEASE.replace("default", "kube-node-lease"), _KEY.replace("default", "kube-node-lease")
    await api.create(target.rpartition("/")[0], _lease())
    record = api.store.get(key)
    assert record is not None
    body = _renewed(record.value)
    for name, status in (("b", 403), ("a", 200)):
        api.transport = api.server.transport(f"system:node:{name}", ("system:nodes",), user_agent="test/1")
        answer = await api.put(target, body)
        assert answer.status == status, answer.text
    assert short == [True]


async def test_one_of_two_concurrent_renewals_conflicts(api: Api) -> None:
    await api.create(LEASES, _lease())
    body = _renewed(_stored(api))
    answers = await asyncio.gather(*[api.put(_LEASE, body) for _ in range(2)])
    assert sorted(answer.status for answer in answers) == [200, 409]


def _renewal(api: Api, target: str = _LEASE, agent: str = "test") -> Callable[[str], Response | None] | None:
    headers = {"content-type": "application/json", "user-agent": agent}
    return api.server.renewal(Request("PUT", target, headers), Identity("test"))


@pytest.mark.not_on("etcd", "sqlite", reason="a write has to be waited for")
async def test_in_process_renewal_stores_the_same(api: Api, env: Env) -> None:
    await api.create(LEASES, _lease())
    assert _renewal(api) is None, "it was not renewed yet"
    answer = await api.put(_LEASE, _renewed(_stored(api)))
    renew = _renewal(api)
    assert renew is not None
    for seconds in (7, 0, 5):
        await asyncio.sleep(seconds)
        before = _stored(api)
        at = format_micro_time(env.now())
        response = renew(at)
        assert response is not None
        assert response.body == _stored(api)
        renewed, old = json.loads(response.body), json.loads(before)
        assert int(renewed["metadata"].pop("resourceVersion")) == int(old["metadata"].pop("resourceVersion")) + 1
        assert renewed["metadata"]["managedFields"][0].pop("time") == format_time(env.now())
        assert renewed["spec"].pop("renewTime") == at
        del old["metadata"]["managedFields"][0]["time"], old["spec"]["renewTime"]
        assert renewed == old
    assert (await api.put(_LEASE, answer.body)).status == 409
    newest = json.loads(_stored(api))
    newest["metadata"]["labels"] = {"a": "b"}
    assert (await api.put(_LEASE, newest)).status == 200
    assert renew(format_micro_time(env.now())) is None, "somebody else has written it"


@cases(
    "target, agent",
    {
        "another manager": (_LEASE, "other/1"),
        "another lease": (LEASES + "/b", "test"),
        "a dry run": (_LEASE + "?dryRun=All", "test"),
        "a subresource": (_LEASE + "/status", "test"),
        "collection": (LEASES, "test"),
        "another kind": ("/api/v1/namespaces/default/configmaps/a", "test"),
    },
)
@pytest.mark.not_on("etcd", "sqlite", reason="a write has to be waited for")
async def test_requests_that_take_the_generic_path(api: Api, target: str, agent: str) -> None:
    await api.create(LEASES, _lease())
    await api.put(_LEASE, _renewed(_stored(api)))
    assert _renewal(api) is not None
    assert _renewal(api, target, agent) is None
