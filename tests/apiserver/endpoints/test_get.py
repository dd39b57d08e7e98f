"""get and list: resource versions, paging, selectors (facts from kube-apiserver v1.36.2)."""

import asyncio
import base64
import json
from urllib.parse import quote

import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, Answer, Api, Object, config_map, pod
from tests.tables import cases

from pilothouse.apiserver.endpoints.get import decode_token, encode_token
from pilothouse.env import Env
from pilothouse.storage import Retention


def _names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.body["items"]]


async def _three(api: Api) -> None:
    for name in ("b", "a", "c"):
        await api.create(CONFIG_MAPS, config_map(name, metadata={"labels": {"n": name}}))


async def test_list_is_in_key_order_with_the_store_revision(api: Api) -> None:
    await _three(api)
    answer = await api.get(CONFIG_MAPS)
    assert answer.body["kind"] == "ConfigMapList"
    assert answer.body["apiVersion"] == "v1"
    assert answer.body["metadata"] == {"resourceVersion": "9"}
    assert _names(answer) == ["a", "b", "c"]
    assert all("kind" not in item and "apiVersion" not in item for item in answer.body["items"])


@pytest.mark.parametrize(
    ("target", "warning"),
    [
        ("/api/v1/componentstatuses", "v1 ComponentStatus is deprecated in v1.19+"),
        ("/api/v1/endpoints", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    ],
)
async def test_list_of_a_deprecated_kind_returns_a_warning(api: Api, target: str, warning: str) -> None:
    answer = await api.get(target)
    assert (answer.status, answer.headers["warning"]) == (200, f'299 - "{warning}"')


async def test_empty_list_has_items(api: Api) -> None:
    assert (await api.get(CONFIG_MAPS)).body["items"] == []


async def test_namespaces_sort_by_storage_key(api: Api) -> None:
    """A dash sorts before the slash that ends a shorter name, as in etcd."""
    for name in ("a", "a-b"):
        await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        await api.create(f"/api/v1/namespaces/{name}/configmaps", config_map(f"in-{name}"))
    assert _names(await api.get("/api/v1/configmaps")) == ["in-a-b", "in-a"]


# Paging


async def test_pages_are_consistent(api: Api) -> None:
    await _three(api)
    pages = [await api.get(CONFIG_MAPS + "?limit=1")]
    await api.delete(CONFIG_MAPS + "/b")
    await api.create(CONFIG_MAPS, config_map("bb"))
    while pages[-1].meta.get("continue"):
        pages.append(await api.get(f"{CONFIG_MAPS}?limit=1&continue={pages[-1].meta['continue']}"))
    assert [_names(page) for page in pages] == [["a"], ["b"], ["c"]]
    assert {page.meta["resourceVersion"] for page in pages} == {"9"}
    assert [page.meta.get("remainingItemCount") for page in pages] == [2, 1, None]


def test_continue_token_is_upstreams() -> None:
    assert decode_token(encode_token(7, "c2")) == (7, "c2")
    assert encode_token(7, "c2") == "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiIvYzJcdTAwMDAifQ"


async def test_pages_with_a_selector_are_filled(api: Api) -> None:
    await _three(api)
    query = f"{CONFIG_MAPS}?limit=1&labelSelector={quote('n in (a,c)')}"
    first = await api.get(query)
    pages = [first, await api.get(f"{query}&continue={first.meta['continue']}")]
    assert [_names(page) for page in pages] == [["a"], ["c"]]
    assert "remainingItemCount" not in pages[0].meta
    assert "continue" not in pages[1].meta


async def test_expired_continue_token_returns_an_inconsistent_one(api: Api) -> None:
    await _three(api)
    first = await api.get(CONFIG_MAPS + "?limit=1")
    await api.create(CONFIG_MAPS, config_map("d"))
    api.store.compact(api.store.revision)
    answer = await api.get(f"{CONFIG_MAPS}?limit=1&continue={first.meta['continue']}")
    rest = await api.get(f"{CONFIG_MAPS}?continue={answer.meta['continue']}")
    assert (answer.status, answer.body["reason"]) == (410, "Expired")
    assert answer.message == (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    assert _token_of(answer.meta["continue"]) == {"v": "meta.k8s.io/v1", "rv": -1, "start": "/a\0"}
    assert "details" not in answer.body
    assert _names(rest) == ["b", "c", "d"]
    assert rest.meta["resourceVersion"] == "10"


async def test_continue_token_expires_with_the_history(env: Env) -> None:
    """A token is valid as long as history is kept, and later writes are not visible in its pages."""
    api = Api(env, retention=Retention(seconds=10))
    await _three(api)
    first = await api.get(CONFIG_MAPS + "?limit=1")
    rest = f"{CONFIG_MAPS}?limit=9&continue={first.meta['continue']}"
    answers = []
    for name in "defg":
        await api.create(CONFIG_MAPS, config_map(name))
        answers.append(await api.get(rest))
        await asyncio.sleep(4)
    *good, responses_after = answers
    assert [_names(page) for page in good] == [["b", "c"]] * 3
    assert (responses_after.status, responses_after.body["reason"]) == (410, "Expired")


@cases(
    "token, message",
    {
        "unsupported version": (
            {"v": "v2", "rv": 5, "start": "/a\0"},
            "server does not recognize this encoded version v2",
        ),
        "resourceVersion 0": (
            {"v": "meta.k8s.io/v1", "rv": 0, "start": "/a\0"},
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        "empty start key": (
            {"v": "meta.k8s.io/v1", "rv": 5, "start": ""},
            "encoded start key empty (version meta.k8s.io/v1)",
        ),
        "start key with ..": ({"v": "meta.k8s.io/v1", "rv": 5, "start": "/../x"}, "/../x"),
    },
)
async def test_invalid_continue_token_is_rejected(api: Api, token: Object, message: str) -> None:
    """As ``DecodeContinue`` in apiserver ``pkg/storage/continue.go`` (v0.36)."""
    text = base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")
    answer = await api.get(f"{CONFIG_MAPS}?continue={text}")
    assert (answer.status, answer.message) == (
        400,
        f"invalid continue token: continue key is not valid: {message}",
    )


@pytest.mark.parametrize("more", ["", "&labelSelector=a", "&limit=1"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_continue_token_of_a_future_revision_is_awaited(api: Api, method: str, more: str) -> None:
    token = {"v": "meta.k8s.io/v1", "rv": 10, "start": "/a\0"}
    await _three(api)
    targets = []
    for revision in (10, 2**63 - 1):
        text = base64.urlsafe_b64encode(json.dumps({**token, "rv": revision}).encode()).decode().rstrip("=")
        targets.append(f"{CONFIG_MAPS}?continue={text}{more}")
    waiting = asyncio.ensure_future(api.request("GET", targets[0]))
    await asyncio.sleep(1)
    await api.create(CONFIG_MAPS, config_map("d"))
    result = await waiting
    never = await api.request(method, targets[1])
    assert result.status == 200
    assert (never.status, never.message) == (504, f"Timeout: Too large resource version: {2**63 - 1}, current: 10")


def _token_of(text: str) -> Object:
    token: Object = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return token


# Options


async def test_resource_version_match_exact(api: Api) -> None:
    await _three(api)
    answer = await api.get(CONFIG_MAPS + "?resourceVersion=8&resourceVersionMatch=Exact")
    assert _names(answer) == ["a", "b"]
    assert answer.meta["resourceVersion"] == "8"


@pytest.mark.parametrize("target", [CONFIG_MAPS, CONFIG_MAPS + "/a"])
async def test_future_resource_version_is_awaited(api: Api, target: str) -> None:
    await _three(api)
    waiting = asyncio.ensure_future(api.get(target + "?resourceVersion=10"))
    await asyncio.sleep(1)
    await api.create(CONFIG_MAPS, config_map("d"))
    result = await waiting
    never = await api.get(target + "?resourceVersion=99")
    assert result.status == 200
    assert (never.status, never.body["reason"]) == (504, "Timeout")
    assert never.message == "Timeout: Too large resource version: 99, current: 10"
    assert never.body["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    assert never.headers["retry-after"] == "1"


# Selectors


@cases(
    "query, names",
    {
        "label equals": ("labelSelector=app%3Dx", ["a", "b"]),
        "label does not equal": ("labelSelector=app!%3Dx", ["c"]),
        "spec.nodeName": ("fieldSelector=spec.nodeName%3Dn1", ["a", "c"]),
        "spec.host": ("fieldSelector=spec.host%3Dn1", ["a", "c"]),
        "empty spec.nodeName": ("fieldSelector=spec.nodeName%3D", ["b"]),
        "another spec.nodeName": ("fieldSelector=spec.nodeName!%3Dn1", ["b"]),
        "metadata.name": ("fieldSelector=metadata.name%3Db", ["b"]),
        "an empty term is skipped": ("fieldSelector=metadata.name%3Db,", ["b"]),
        "status.phase": ("fieldSelector=status.phase%3DRunning", ["a"]),
        "spec.hostNetwork": ("fieldSelector=spec.hostNetwork%3Dfalse", ["a", "b", "c"]),
        "labels and fields": ("fieldSelector=spec.nodeName%3Dn1&labelSelector=app%3Dx", ["a"]),
    },
)
async def test_selectors(api: Api, query: str, names: list[str]) -> None:
    # The first list builds what indexes there are; the second one has to follow the writes in between.
    for name, labels in (("a", {"app": "x"}), ("b", {"app": "x"}), ("c", {})):
        await api.create(PODS, pod(name, labels=labels))
    await api.get(f"{PODS}?{query}")
    for name in ("a", "c"):
        await api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "n1"}})
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    inside = await api.get(f"{PODS}?{query}")
    everywhere = await api.get(f"/api/v1/pods?{query}")
    assert _names(inside) == names
    assert _names(everywhere) == names


async def test_deleted_pod_is_removed_from_the_index(api: Api) -> None:
    await api.create(PODS, pod("a"))
    await api.get(PODS + "?fieldSelector=spec.nodeName%3D")
    await api.delete(PODS + "/a")
    assert _names(await api.get(PODS + "?fieldSelector=spec.nodeName%3D")) == []


async def test_event_groups_have_their_own_field_selectors(api: Api) -> None:
    body = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}}
    await api.create("/api/v1/namespaces/default/events", body)
    core, other = "/api/v1/events?fieldSelector=", "/apis/events.k8s.io/v1/events?fieldSelector="
    *result, rejected = [
        await api.get(core + "involvedObject.name%3Dp"),
        await api.get(other + "regarding.name%3Dp"),
        await api.get(core + "involvedObject.name%3Dp,reason%3D"),
        await api.get(other + "involvedObject.name%3Dp"),
    ]
    assert [_names(answer) for answer in result] == [["e"]] * 3
    assert (rejected.status, rejected.message) == (400, "field label not supported: involvedObject.name")


async def test_versions_serve_the_same_object(api: Api) -> None:
    path = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 50,
    }
    await api.create(path.format("v1"), {"metadata": {"name": "h"}, "spec": spec})
    first, second = [await api.get(path.format(version)) for version in ("v1", "v2")]
    assert first.body["items"][0]["spec"] == {**spec, "minReplicas": 1}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    assert second.body["items"][0]["spec"]["metrics"] == [{"type": "Resource", "resource": metric}]


async def test_head_is_405(api: Api) -> None:
    answer = await api.request("HEAD", CONFIG_MAPS)
    assert (answer.status, answer.text) == (405, "")


async def test_metadata_name_selector_across_namespaces(api: Api) -> None:
    await _three(api)
    query = f"?limit=1&fieldSelector={quote('metadata.name=a')}"
    everywhere, here = [await api.get("/api/v1/configmaps" + query), await api.get(CONFIG_MAPS + query)]
    assert (_names(everywhere), _names(here)) == (["a"], ["a"])
    assert "continue" in everywhere.meta, "there are more objects, and whether they match is not looked at"
    assert "continue" not in here.meta


async def test_malformed_query_parameters_are_ignored(api: Api) -> None:
    """Go's net/url omits parameters with a semicolon or an invalid escape."""
    await api.create(CONFIG_MAPS, config_map())
    result = [
        await api.get(f"{CONFIG_MAPS}?{query}") for query in ("labelSelector=%zz", "labelSelector=a;limit=x", "&&")
    ]
    assert [len(answer.body["items"]) for answer in result] == [1, 1, 1]


async def test_continue_token_is_returned_if_later_objects_may_not_match(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map("a", metadata={"labels": {"l": "x"}}))
    await api.create(CONFIG_MAPS, config_map("b"))
    answer = await api.get(f"{CONFIG_MAPS}?labelSelector=l%3Dx&limit=1")
    assert _names(answer) == ["a"]
    assert answer.meta["continue"]


@cases(
    "query, count",
    {
        "one name: at or after the version": ("fieldSelector=metadata.name%3Dc", 1),
        "a list: at exactly this version": ("labelSelector=!x", 0),
    },
)
async def test_limit_with_a_resource_version(api: Api, query: str, count: int) -> None:
    before = api.store.revision
    await api.create(CONFIG_MAPS, config_map())
    assert len((await api.get(f"{CONFIG_MAPS}?{query}&limit=1&resourceVersion={before}")).body["items"]) == count
