"""The apply story on a real kube-apiserver and on ours: same answers and owners, but for what releases changed."""

import asyncio
import json
import re
import time
from typing import Any

import pytest
from tests.apiserver.api import Api, on
from tests.apiserver.apply_story import CRD, STEPS, Object, tell
from tests.real_cluster import RealCluster, RequestFailed

from pilothouse.api.wire import Request

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SUBRESOURCE = "v1.22 gives writes to subresources entries of their own, and leaves out what a resource resets"
KEY_DEFAULTS = "v1.21 fills in keys of list items that have a default"
CUSTOM_SCHEMA = "v1.21 applies custom resources by their schema; before, lists are one value and maps are by their form"
STALE = "v1.20's structured-merge-diff (v4.0.2) shares sets between managers, and so gives one what another has"
VERSION_CHECK = "v1.21 looks at kind and version of a configuration first"
GO_TYPE = "v1.22 names the type of the value, not of what wraps it"
ALTERED: dict[str, dict[int, str]] = {
    "updates between applies": {4: STALE, 5: STALE},
    "a deployment": {9: SUBRESOURCE, 10: SUBRESOURCE, 11: SUBRESOURCE},
    "a service": dict.fromkeys(range(7), KEY_DEFAULTS),
    "a pod": dict.fromkeys(range(1, 5), SUBRESOURCE),
    "a custom resource": dict.fromkeys(range(9), CUSTOM_SCHEMA),
    "refused": {3: VERSION_CHECK, 4: VERSION_CHECK, 10: GO_TYPE, **dict.fromkeys((14, 15, 16), CUSTOM_SCHEMA)},
}
_OBJECT = re.compile(r"^(failed to create typed patch object) \([^)]*\)")  # named since v1.22


def _ours(steps: list[tuple[str, str, Any, str]]) -> list[Any]:
    async def main(api: Api) -> list[Any]:
        running = asyncio.ensure_future(api.server.run())
        await api.made(DEFINITIONS, CRD)
        answers: list[tuple[int, Object]] = []
        for method, path, body, content_type in steps:
            headers = {"content-type": content_type, "user-agent": "story"}
            request = Request(method, path.format(ns="default"), headers, json.dumps(body).encode())
            response = await api.transport.request(request)
            answers.append((response.status, json.loads(response.body)))
        running.cancel()
        given = iter(answers)
        return tell(lambda *_asked: next(given), "default", steps)

    return on(main)


def _plain(told: Any) -> Any:
    """Without what later releases print otherwise and applying has nothing to do with."""
    text = json.loads(json.dumps(told))
    status = text[0]
    if status >= 300:
        causes = sorted(text[3] or [], key=lambda cause: str(cause.get("message")))  # v1.20 has them in any order
        return [status, text[1], _OBJECT.sub(r"\1", text[2]), causes]
    template = text[2].get("spec", {}).get("template", {}).get("metadata", {})
    template.pop("creationTimestamp", None)  # null until v1.34
    return text


@pytest.fixture(scope="module")
def defined(real_cluster: RealCluster) -> RealCluster:
    real_cluster.request("POST", DEFINITIONS, CRD)
    for _ in range(100):
        try:
            real_cluster.request("GET", "/apis/story.example.com/v1/crontabs")
        except RequestFailed:
            time.sleep(0.1)
        else:
            break
    return real_cluster


@pytest.mark.parametrize("story", list(STEPS))
def test_both_answer_and_own_alike(defined: RealCluster, story: str) -> None:
    def ask(method: str, path: str, body: bytes, content_type: str) -> tuple[int, Object]:
        status, text = defined._exchange(method, path, json.loads(body), content_type)
        return status, json.loads(text)

    theirs = tell(ask, defined.namespace("apply"), STEPS[story])
    mine = _ours(STEPS[story])
    altered = ALTERED.get(story, {})
    for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if number not in altered:
            assert _plain(one) == _plain(other), f"step {number}: {STEPS[story][number]}"
