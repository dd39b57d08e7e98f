"""Pods whose spec was valid before: what else decides about them is validated nevertheless."""

from typing import Any

import pytest
from tests.apiserver.api import PODS, Api

CONTAINERS: list[dict[str, Any]] = [{"name": "c", "image": "i"}]
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": CLAIM}}
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"


def pod(name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": CONTAINERS, **(spec or {})}}


async def created(api: Api, body: dict[str, Any]) -> tuple[int, str]:
    answer = await api.post(PODS, body)
    return answer.status, answer.message or answer.headers.get("warning", "")


@pytest.fixture
async def known(api: Api) -> Api:
    for number in range(2):
        assert await created(api, pod(f"known-{number}")) == (201, "")
    return api


async def test_names_labels_and_annotations_are_validated(known: Api) -> None:
    assert (await created(known, pod("UPPER")))[0] == 422
    assert (await created(known, pod("a", labels={"a": "?"})))[0] == 422
    assert (await created(known, pod("a", annotations={"?": ""})))[0] == 422
    status, message = await created(known, pod("a", annotations={"kubernetes.io/config.mirror": "x"}))
    assert (status, "must set spec.nodeName" in message) == (422, True)
    status, warning = await created(known, pod("a", annotations={SECCOMP: "runtime/default"}))
    assert (status, SECCOMP in warning) == (201, True)


async def test_warnings_are_repeated(known: Api) -> None:
    spec = {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}
    for number in range(3):
        status, warning = await created(known, pod(f"warned-{number}", spec))
        assert (status, "beta.kubernetes.io/os" in warning) == (201, True)
    status, warning = await created(known, pod("dotted.name"))
    assert (status, "hostname" in warning) == (201, True)


async def test_claims_of_ephemeral_volumes_have_the_name_of_the_pod(known: Api) -> None:
    spec = {"volumes": [SCRATCH]}
    for number in range(2):
        assert (await created(known, pod(f"claims-{number}", spec)))[0] == 201
    assert (await created(known, pod("n" * 250, spec)))[0] == 422


async def test_a_changed_spec_is_validated(known: Api) -> None:
    assert (await created(known, pod("a", {"restartPolicy": "Sometimes"})))[0] == 422
    assert (await created(known, pod("a", {"nodeName": "n", "schedulingGates": [{"name": "g"}]})))[0] == 422
