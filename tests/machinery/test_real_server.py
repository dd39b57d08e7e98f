"""Quantities, selectors and strategic merge, next to a real API server's answers."""

import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from tests.real_cluster import RealCluster, RequestFailed

from pilothouse.api.schema import load
from pilothouse.machinery.labels import SelectorError, parse_selector
from pilothouse.machinery.patches import PatchError
from pilothouse.machinery.quantities import parse_quantity
from pilothouse.machinery.strategic_merge import apply_strategic_merge

# Without "1000E", which upstream prints as "1" because it has no suffix for so much; we keep the amount.
QUANTITIES = [
    "0", "0Mi", "-0", "0.000", ".", "1000m", "0.5", "100m", "1024Mi", "1500Mi", "1.5Gi", "1024", "1024Ki", "0.5Ki",
    "3.3Ki", "1e3", "12E5", "1E", "1000000", "1.500", "+5", "005", "2.5", "1.25", "0.125", "10.0Gi", "100.5Mi",
    "7Ei", "8Ei", "16Ei", "1e19", "9223372036854775808", "12345678901234567890", "1.000Gi", "0.1", ".5", "5.", "1k",
    "1000k", "1024k", "1.1Ki", "1023Ki", "8Ki", "16Ki", "15Ki", "15.0Ki", "1e-3", "1.5e3", "1e0", "1E3", "100e2",
    "999999999999999999Ki", "00.5", "0100", "1.0", "1.00", "1.000", "10.000", "0.000001M", "123456789.123", "1n",
    "1500u", "1.1m", "0.0001", "1e-9",
]  # fmt: skip


def test_quantities_are_written_as_the_server_writes_them(real_cluster: RealCluster) -> None:
    for text in QUANTITIES:
        node = {"metadata": {"generateName": "q-"}, "status": {"capacity": {"cpu": text}}}
        answer = real_cluster.request("POST", "/api/v1/nodes?dryRun=All", node)
        # The server rounds what is in a resource list up to thousandths.
        assert answer["status"]["capacity"]["cpu"] == str(parse_quantity(text).rounded_up(-3)), text


SELECTORS = (
    "a===", "a in b", "a b", "a=b c", ",", "a,", "!", "!a=b", "a in (", "a in (b", "a in (,", "a=%", "a>b", "a b=c",
    "=", "a in (b))", "a in ()", "a in (b c)", "x in (a,,b),!y", "in in (in)", "a" * 64, "a/b/c", "/a", "a!=", "a!",
    "a<",
)  # fmt: skip


def test_selectors_are_refused_when_the_server_refuses_them(real_cluster: RealCluster) -> None:
    for text in SELECTORS:
        try:
            real_cluster.request("GET", f"/api/v1/pods?labelSelector={quote(text)}")
            refused = False
        except RequestFailed:
            refused = True
        try:
            parse_selector(text)
            assert not refused, text
        except SelectorError:
            assert refused, text


def random_items(rng: random.Random, make: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    return [make(name) for name in rng.sample("abcde", rng.randrange(1, 5))]


def random_patch(rng: random.Random) -> dict[str, Any]:
    """A patch of containers with directives here and there."""

    def env(name: str) -> dict[str, Any]:
        if rng.random() < 0.2:
            return {"name": name, "$patch": "delete"}
        return {"name": name, "value": str(rng.randrange(9))}

    def container(name: str) -> dict[str, Any]:
        if rng.random() < 0.15:
            return {"name": name, "$patch": "delete"}
        made: dict[str, Any] = {"name": name, "image": f"image-{rng.randrange(9)}"}
        if rng.random() < 0.5:
            made["env"] = random_items(rng, env)
            if rng.random() < 0.3:
                made["env"].insert(0, {"$patch": "replace"})
        elif rng.random() < 0.3:
            made["env"] = None
        return made

    spec: dict[str, Any] = {"containers": random_items(rng, container)}
    if rng.random() < 0.3:
        kept = [{"name": c["name"]} for c in spec["containers"] if "$patch" not in c]
        spec["$setElementOrder/containers"] = kept + [{"name": n} for n in "xy"]
        if rng.random() < 0.2:
            spec["$setElementOrder/containers"].reverse()
    metadata: dict[str, Any] = {}
    if rng.random() < 0.3:
        metadata["labels"] = {rng.choice("ab"): rng.choice(["1", None]), "c": "2"}
        if rng.random() < 0.3:
            metadata["labels"]["$patch"] = "replace"
    if rng.random() < 0.3:
        metadata["finalizers"] = [f"example.com/{n}" for n in rng.sample("abcd", 2)]
    if rng.random() < 0.3:
        metadata["$deleteFromPrimitiveList/finalizers"] = [f"example.com/{n}" for n in rng.sample("efgh", 2)]
    return {"metadata": metadata, "template": {"spec": spec}}


def outline(document: dict[str, Any]) -> Any:
    """What the patches touch, without what the server fills in."""
    metadata = document["metadata"]
    return {
        # A null in a map that is new: v1.20 keeps it as the empty text, later releases drop it.
        "labels": {key: value for key, value in metadata.get("labels", {}).items() if value},
        "finalizers": metadata.get("finalizers", []),
        "containers": [
            # Directives in a list that is new: v1.20 keeps the item, later releases do not, in a new container both do.
            {"name": c["name"], "image": c["image"], "env": [e for e in c.get("env") or [] if "value" in e]}
            for c in document["template"]["spec"]["containers"]
        ],
    }


def strategic_patch(cluster: RealCluster, path: str, patch: Any) -> Any:
    """What the server answers: the object, or a Status."""
    try:
        return cluster.request("PATCH", path, patch, content_type="application/strategic-merge-patch+json")
    except RequestFailed as failure:
        return json.loads(str(failure).split(" ", 3)[3])


def test_strategic_merge_gives_what_the_server_gives(real_cluster: RealCluster) -> None:
    """Random patches on one pod template, one after the other; errors must agree too."""
    rng = random.Random(7)
    path = f"/api/v1/namespaces/{real_cluster.namespace()}/podtemplates"
    definition = load().for_kind("", "v1", "PodTemplate")
    containers = [{"name": name, "image": "image"} for name in "ace"]
    metadata = {"name": "t", "finalizers": [f"example.com/{n}" for n in "efgh"]}
    live = real_cluster.request("POST", path, {"metadata": metadata, "template": {"spec": {"containers": containers}}})
    applied = 0
    for _ in range(60):
        patch = random_patch(rng)
        try:
            ours: Any = apply_strategic_merge(live, patch, definition)
        except PatchError as error:
            ours = error
        theirs = strategic_patch(real_cluster, f"{path}/t", patch)
        if isinstance(ours, PatchError):
            assert theirs["code"] == ours.code, patch
            assert theirs["message"] == ours.message, patch
        elif theirs["kind"] == "Status":
            # The merge went well, and what came out is not allowed: there were no containers left, say.
            assert theirs["code"] == 422, (patch, theirs)
        else:
            assert outline(theirs) == outline(ours), patch
            live = theirs
            applied += 1
    assert applied > 30


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ({"template": {"spec": {"containers": [{"image": "x"}]}}}, 500),
        ({"$patch": "foo"}, 500),
        ({"template": {"spec": {"$retainKeys": ["a"], "b": 1}}}, 400),
        ({"template": {"spec": {"containers": ["x"]}}}, 500),
        ({"template": {"spec": {"$setElementOrder/containers": "x"}}}, 500),
        ({"template": {"spec": {"containers": [["x"]]}}}, 500),
        ({"metadata": {"$deleteFromPrimitiveList": ["a"]}}, 400),
    ],
)
def test_bad_patches_fail_as_on_the_server(real_cluster: RealCluster, patch: Any, status: int) -> None:
    path = f"/api/v1/namespaces/{real_cluster.namespace()}/podtemplates"
    template = {"spec": {"containers": [{"name": "a", "image": "image"}]}}
    live = real_cluster.request("POST", path, {"metadata": {"name": "t"}, "template": template})
    with pytest.raises(PatchError) as ours:
        apply_strategic_merge(live, patch, load().for_kind("", "v1", "PodTemplate"))
    theirs = strategic_patch(real_cluster, f"{path}/t", patch)
    assert theirs["code"] == ours.value.code == status
    assert theirs["message"] == ours.value.message
