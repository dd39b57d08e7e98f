"""Numbers and times that users may write, and that no clock of Python goes to."""

import datetime
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, Api, Object, pod

LARGEST = 2**63 - 1
DIGITS = "9" * 5000
OUT_OF_RANGE = f'strconv.ParseUint: parsing "{DIGITS}": value out of range'


@pytest.mark.parametrize(
    ("method", "target", "body", "code", "message"),
    [
        pytest.param("PUT", f"{CONFIG_MAPS}/c", {"metadata": {"name": "c", "resourceVersion": DIGITS}}, 500,
                     OUT_OF_RANGE, id="a PUT that insists on it"),
        pytest.param("POST", CONFIG_MAPS, {"metadata": {"name": "d", "resourceVersion": DIGITS}}, 201, "",
                     id="a create, where nobody looks at what is no version"),
        pytest.param("GET", f"{CONFIG_MAPS}?resourceVersion={DIGITS}", None, 400,
                     f'invalid resource version: resourceVersion: Invalid value: "{DIGITS}": {OUT_OF_RANGE}',
                     id="a list"),
        pytest.param("GET", f"{CONFIG_MAPS}?watch=true&resourceVersion={DIGITS}", None, 500,
                     f'resourceVersion: Invalid value: "{DIGITS}": {OUT_OF_RANGE}', id="a watch"),
        pytest.param("GET", f"{CONFIG_MAPS}/c?resourceVersion={DIGITS}", None, 500,
                     f'resourceVersion: Invalid value: "{DIGITS}": {OUT_OF_RANGE}', id="a get"),
        pytest.param("GET", f"{CONFIG_MAPS}?limit={DIGITS}", None, 400,
                     f'strconv.ParseInt: parsing "{DIGITS}": value out of range', id="a limit"),
    ],
)  # fmt: skip
async def test_resource_versions_of_thousands_of_digits(
    api: Api, method: str, target: str, body: Any, code: int, message: str
) -> None:
    await api.made(CONFIG_MAPS, {"metadata": {"name": "c"}})
    answer = await api.ask(method, target, body)
    assert (answer.status, answer.message) == (code, message)


async def test_a_grace_period_wraps_around_as_go_durations_do(api: Api) -> None:
    """``time.Duration(seconds) * time.Second`` of int64's largest number is a second less than nothing."""
    await api.made(PODS, pod(spec={}, terminationGracePeriodSeconds=LARGEST, nodeName="n"))
    before = api.env.now()
    gone = await api.delete(f"{PODS}/p")
    assert gone.status == 200, gone.text
    marked = datetime.datetime.fromisoformat(gone.meta["deletionTimestamp"])
    assert marked == before - datetime.timedelta(seconds=1)
    assert gone.meta["deletionGracePeriodSeconds"] == LARGEST
    again = await api.delete(f"{PODS}/p?gracePeriodSeconds=10")
    assert again.status == 200, again.text
    assert (await api.get(f"{PODS}/p")).meta["deletionGracePeriodSeconds"] == 10


@pytest.mark.parametrize("seconds", [-(2**63), -1, 0, 9_223_372_036, 9_223_372_037, LARGEST])
async def test_a_pod_with_any_grace_period_can_be_deleted(api: Api, seconds: int) -> None:
    await api.made(PODS, pod(terminationGracePeriodSeconds=seconds, nodeName="n"))
    assert (await api.delete(f"{PODS}/p")).status == 200
    assert (await api.delete(f"{PODS}/p")).status in (200, 404)
    assert (await api.delete(f"{PODS}/p?gracePeriodSeconds=0")).status in (200, 404)


async def test_the_generation_after_the_largest_is_the_smallest(api: Api) -> None:
    """Claims keep the generation that they came with; a larger number than any could not be read again."""
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    claim: Object = {
        "metadata": {"name": "c", "generation": LARGEST, "finalizers": ["example.com/wait"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
    }
    await api.made(claims, claim)
    assert (await api.delete(f"{claims}/c")).meta["generation"] == -LARGEST - 1
    freed = await api.patch(f"{claims}/c", {"metadata": {"finalizers": None}})
    assert freed.status == 200, freed.text
    assert (await api.get(f"{claims}/c")).status == 404
