"""Strategic merge (apimachinery 0.36, pkg/util/strategicpatch/patch_test.go; answers of v1.36.2)."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.api.schema import Definition, load
from pilothouse.machinery import strategic_merge
from pilothouse.machinery.patches import PatchError, PatchNotApplicable
from pilothouse.machinery.strategic_merge import apply_strategic_merge


def definition(group: str, version: str, kind: str) -> Definition:
    result = load().for_kind(group, version, kind)
    assert result is not None
    return result


POD = definition("", "v1", "Pod")
DEPLOYMENT = definition("apps", "v1", "Deployment")
POD_TEMPLATE = definition("", "v1", "PodTemplate")


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def containers(*names: str, **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": named(*names), **more}}


@cases(
    "document, patch, expected",
    {
        "empty patch": ({"a": {}}, {}, {"a": {}}),
        "maps merge, null deletes": (
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": {"b": "2", "a": None}}},
            {"metadata": {"labels": {"b": "2"}}},
        ),
        "nulls of new values are removed": ({}, {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {}}}),
        "item matched by merge key": (
            containers("c", "e"),
            {"spec": {"containers": [{"name": "e", "image": "x"}]}},
            {"spec": {"containers": [{"name": "c"}, {"name": "e", "image": "x"}]}},
        ),
        "new item comes first": (containers("c", "e"), containers("b"), containers("b", "c", "e")),
        "live order precedes the patch's": (
            containers("c", "e"),
            containers("e", "b"),
            containers("c", "e", "b"),
        ),
        "live item after a new item that follows its predecessor": (
            containers("c", "e"),
            containers("c", "b"),
            containers("c", "b", "e"),
        ),
        "order of the patch": (
            containers("c", "e"),
            containers("z", "e", "y", "c"),
            containers("z", "e", "y", "c"),
        ),
        "an item is deleted": (
            containers("c", "e"),
            {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}},
            containers("e"),
        ),
        "deleting a missing item": (
            containers("c"),
            {"spec": {"containers": [{"name": "x", "$patch": "delete"}]}},
            containers("c"),
        ),
        "a list is replaced": (
            containers("c", "e"),
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "n"}]}},
            containers("n"),
        ),
        "setElementOrder": (
            containers("c", "e"),
            {"spec": {"$setElementOrder/containers": named("e", "c")}},
            containers("e", "c"),
        ),
        "an item is added in order": (
            containers("c", "e"),
            {"spec": {"$setElementOrder/containers": named("c", "n"), "containers": named("n")}},
            containers("c", "n", "e"),
        ),
        "an atomic list is replaced": (
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
        ),
        "a list of scalars is a set": (
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c", "a"]}},
            {"metadata": {"finalizers": ["c", "a", "b"]}},
        ),
        "scalars are deleted": (
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}},
            {"metadata": {"finalizers": ["b"]}},
        ),
        "scalars are deleted from nothing": (
            {"metadata": {}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {}},
        ),
        "a map is replaced": (
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": {"$patch": "replace", "b": "2"}}},
            {"metadata": {"labels": {"b": "2"}}},
        ),
        "a map is emptied": (
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": {"$patch": "delete"}}},
            {"metadata": {"labels": {}}},
        ),
        "$patch in a new value": ({"spec": {}}, {"spec": {"affinity": {"$patch": "delete"}}}, {"spec": {}}),
        "retainKeys": (
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "nfs"], "nfs": {"path": "/"}}]}},
            {"spec": {"volumes": [{"name": "v", "nfs": {"path": "/"}}]}},
        ),
        "how a pod is released": (
            {"metadata": {"ownerReferences": [{"uid": "a"}, {"uid": "b"}]}},
            {"metadata": {"uid": "p", "ownerReferences": [{"$patch": "delete", "uid": "a"}]}},
            {"metadata": {"uid": "p", "ownerReferences": [{"uid": "b"}]}},
        ),
    },
)
def test_merge(document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((document, patch))
    assert apply_strategic_merge(document, patch, POD) == expected
    assert (document, patch) == before, "what is handed in stays as it is"


def test_order_of_merged_lists() -> None:
    merged = apply_strategic_merge(containers("c", "e"), containers("c", "b"), POD)
    assert [c["name"] for c in merged["spec"]["containers"]] == ["c", "b", "e"]


def test_container_ports_merge_by_number() -> None:
    live = {"spec": {"ports": [{"port": 53, "protocol": "UDP", "name": "dns"}]}}
    service = definition("", "v1", "Service")
    patch = {"spec": {"ports": [{"port": 53, "protocol": "TCP"}]}}
    assert apply_strategic_merge(live, patch, service)["spec"]["ports"] == [
        {"port": 53, "protocol": "TCP", "name": "dns"}
    ]


def test_retain_keys_of_deployment_strategy() -> None:
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert apply_strategic_merge(live, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            {"spec": {"containers": [{"image": "x"}]}},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        ({"$patch": "foo"}, 500, "unknown patch type: foo in map: map[$patch:foo]"),
        (
            {"spec": {"containers": [{"name": "c", "$patch": "merge"}]}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        ({"spec": {"$retainKeys": ["a"], "b": 1}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": "a"}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$deleteFromPrimitiveList": ["a"]}}, 400, "invalid patch format of primitive list"),
        ({"spec": {"$setElementOrder": []}}, 400, "invalid patch format of setElementOrder list"),
        (
            {"spec": {"$setElementOrder/containers": "x"}},
            500,
            "expected a []interface {}, but received a string",
        ),
        (
            {"spec": {"containers": ["x"]}},
            500,
            "list element types are not identical: [[map[name:c]] [x]]",
        ),
        (
            {"spec": {"containers": [["x"]]}},
            500,
            "list element types are not identical: [[map[name:c]] [[x]]]",
        ),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "c"}], "containers": [{"name": "z"}]}},
            500,
            "The order in patch list:\n[map[name:z]]\n doesn't match $setElementOrder list:\n[map[name:c]]\n",
        ),
    ],
)
def test_invalid_directives(patch: Any, code: int, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_strategic_merge(containers("c"), patch, POD)
    assert (caught.value.code, str(caught.value)) == (code, message)


def test_lists_of_lists_are_unprocessable() -> None:
    with pytest.raises(PatchNotApplicable):
        apply_strategic_merge({"spec": {"containers": []}}, {"spec": {"containers": [["x"]]}}, POD)


def test_new_item_is_appended_after_a_deletion() -> None:
    """An aliasing bug of upstream that ``kubectl apply`` triggers when one container replaces another."""
    patch = {"$setElementOrder/containers": named("d"), "containers": [*named("d"), {"name": "c", "$patch": "delete"}]}
    merged = apply_strategic_merge(containers("a", "c", "e"), {"spec": patch}, POD)
    assert merged == containers("a", "e", "d")


def test_strategic_merge_requires_a_schema() -> None:
    with pytest.raises(PatchError, match="strategic merge patch format is not supported"):
        apply_strategic_merge({}, {}, None)


@pytest.mark.parametrize(("short_cut", "long_way"), [("_is_sorted", False), ("_merge_by_name", None)])
def test_fast_paths_agree_with_the_full_merge(monkeypatch: pytest.MonkeyPatch, short_cut: str, long_way: Any) -> None:
    """Nearly every patch uses a fast path: it is used here, and has the result of the full merge."""
    rng = random.Random(1)
    as_it_is = getattr(strategic_merge, short_cut)
    short: list[bool] = []

    def watched(*of: Any) -> Any:
        result = as_it_is(*of)
        short.append(bool(result))
        return result

    def merged(way: Any, document: Any, patch: Any) -> Any:
        monkeypatch.setattr(strategic_merge, short_cut, way)
        try:
            return apply_strategic_merge(document, patch, POD)
        except PatchError as error:
            return str(error)

    for _ in range(2000):
        live, items = ([rng.choice("abcde") for _ in range(rng.randrange(5))] for _ in range(2))
        patch: dict[str, Any] = {"containers": [{"name": name, "image": rng.choice("xy")} for name in items]}
        if rng.random() < 0.6:
            order = list(dict.fromkeys([*items, *live]))
            if rng.random() < 0.5:
                rng.shuffle(order)
            patch["$setElementOrder/containers"] = named(*order)
        if rng.random() < 0.2:
            patch["containers"].append({"name": rng.choice("abcde"), "$patch": "delete"})
        quick = merged(watched, containers(*live), {"spec": patch})
        slow = merged(lambda *_of: long_way, containers(*live), {"spec": patch})
        assert quick == slow, f"{live} and {patch}"
    assert 100 < sum(short) < len(short)


def test_live_item_without_a_key_has_the_zero_key() -> None:
    """Upstream's types print it, so that there is always a key to compare."""
    live = {"status": {"conditions": [{"reason": "A"}]}}
    assert apply_strategic_merge(live, {"status": {"conditions": [{"type": "", "reason": "B"}]}}, DEPLOYMENT) == {
        "status": {"conditions": [{"type": "", "reason": "B"}]}
    }


def test_sequences_of_patches() -> None:
    """Generated patches of containers, labels and finalizers with directives, each applied to the previous result."""
    lines = (Path(__file__).parent / "data" / "strategic_merges.jsonl").read_text(encoding="utf-8").splitlines()
    live, *steps = map(json.loads, lines)
    for step in steps:
        if "code" in step:
            with pytest.raises(PatchError) as caught:
                apply_strategic_merge(live, step["patch"], POD_TEMPLATE)
            assert (caught.value.code, str(caught.value)) == (step["code"], step["message"])
        else:
            live = apply_strategic_merge(live, step["patch"], POD_TEMPLATE)
            assert live == step["merged"], step["patch"]
