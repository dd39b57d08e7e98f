"""Pods with claims against the embedded API server, in virtual time. The binder's and a provisioner's part is played by
the test, so that each step can be held up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.nodes.world import World, world

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.api.storage import PERSISTENT_VOLUMES, STORAGE_CLASSES
from pilothouse.client import merge_patch
from pilothouse.client.interceptor import Rule, conflict
from pilothouse.env import Env
from pilothouse.env.virtual import run
from pilothouse.semantics.volumes import BIND_COMPLETED, SELECTED_NODE

Doc = dict[str, Any]
NOT_HELPFUL = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
LATER = {"volumeBindingMode": "WaitForFirstConsumer"}


def in_world(story: Callable[[World], Awaitable[None]]) -> None:
    async def main(env: Env) -> None:
        async with world(env, scheduler=True) as w:
            for name in "ab":
                await w.create_node(name)
                labels = {"metadata": {"labels": {"kubernetes.io/hostname": name}}}
                await w.client.request(
                    "PATCH", f"/api/v1/nodes/{name}", body=msgspec.json.encode(labels),
                    headers={"content-type": "application/merge-patch+json"},
                )  # fmt: skip
            await story(w)

    run(main)


async def make_class(w: World, name: str = "local", provisioner: str = "vendor.com/x", **more: Any) -> None:
    await w.client.create(STORAGE_CLASSES.raw, {"metadata": {"name": name}, "provisioner": provisioner, **more})


async def make_claim(w: World, name: str = "c", class_name: str = "local", **spec: Any) -> Doc:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    body = {"metadata": {"name": name}, "spec": {**whole, "storageClassName": class_name}}
    made = await w.client.create(PERSISTENT_VOLUME_CLAIMS.raw, body, "default")
    found: Doc = msgspec.json.decode(made)
    return found


async def make_volume(w: World, name: str = "v", *, on: str = "", phase: str = "Available", **spec: Any) -> None:
    whole: Doc = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    if on:
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}]
        whole["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    whole |= {"csi": {"driver": "vendor.com", "volumeHandle": name}, **spec}
    await w.client.create(PERSISTENT_VOLUMES.raw, {"metadata": {"name": name}, "spec": whole})
    await w.client.patch(PERSISTENT_VOLUMES.raw, name, merge_patch({"status": {"phase": phase}}), subresource="status")


async def bind(w: World, claim: str = "c", volume: str = "v") -> None:
    """What the binder does in the end."""
    meta = {"annotations": {BIND_COMPLETED: "yes"}}
    patch = merge_patch({"metadata": meta, "spec": {"volumeName": volume}})
    await w.client.patch(PERSISTENT_VOLUME_CLAIMS.raw, claim, patch, "default")
    status = merge_patch({"status": {"phase": "Bound"}})
    await w.client.patch(PERSISTENT_VOLUME_CLAIMS.raw, claim, status, "default", subresource="status")


async def make_pod(w: World, name: str = "p", *claims: str, **parts: Any) -> None:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims or ("c",)]
    await w.create_pod(name, volumes=volumes, **parts)


async def why(w: World, name: str = "p") -> str:
    found = await w.pod(name)
    assert found is not None
    return next((c.message for c in found.status.conditions if c.type == "PodScheduled"), "")


async def where(w: World, name: str = "p") -> str:
    found = await w.pod(name)
    return found.spec.node_name if found is not None else "gone"


async def selected(w: World, claim: str = "c") -> str:
    found = await w.client.get(PERSISTENT_VOLUME_CLAIMS, claim, "default")
    return found.metadata.annotations.get(SELECTED_NODE, "")


def test_a_pod_waits_for_its_claim_and_for_its_volume() -> None:
    async def story(w: World) -> None:
        await make_class(w, "now")
        await make_pod(w)
        await asyncio.sleep(1)
        message = f'0/2 nodes are available: persistentvolumeclaim "c" not found. {NOT_HELPFUL.format(2)}'
        assert await why(w) == message
        await make_claim(w, class_name="now")
        await asyncio.sleep(5)
        text = "pod has unbound immediate PersistentVolumeClaims"
        assert await why(w) == f"0/2 nodes are available: {text}. {NOT_HELPFUL.format(2)}"
        await make_volume(w, on="b", storageClassName="now")
        await bind(w)
        await asyncio.sleep(12)
        assert await where(w) == "b", "woken by the claim, and placed where its volume is"

    in_world(story)


@pytest.mark.parametrize(
    ("on", "there", "message"),
    [
        ("elsewhere", True, "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."),
        (
            "",
            False,
            "0/2 nodes are available: 2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).",
        ),
    ],
)
def test_a_volume_that_no_node_reaches(on: str, there: bool, message: str) -> None:
    async def story(w: World) -> None:
        await make_class(w, **LATER)
        await make_claim(w)
        if there:
            await make_volume(w, on=on)
        await bind(w)
        await make_pod(w)
        await asyncio.sleep(1)
        assert await why(w) == f"{message} {NOT_HELPFUL.format(2)}"
        if there:
            await w.create_node("elsewhere")
            await w.client.request(
                "PATCH", "/api/v1/nodes/elsewhere",
                body=b'{"metadata":{"labels":{"kubernetes.io/hostname":"elsewhere"}}}',
                headers={"content-type": "application/merge-patch+json"},
            )  # fmt: skip
        else:
            await make_volume(w)
        await asyncio.sleep(12)
        assert await where(w), "a node or a volume came"

    in_world(story)


def test_a_claim_that_is_lost_or_goes_is_no_claim() -> None:
    async def story(w: World) -> None:
        await make_class(w, **LATER)
        await make_claim(w, "lost", volumeName="v")
        lost = merge_patch({"status": {"phase": "Lost"}})
        await w.client.patch(PERSISTENT_VOLUME_CLAIMS.raw, "lost", lost, "default", subresource="status")
        await make_claim(w, "going")
        await w.client.delete(PERSISTENT_VOLUME_CLAIMS, "going", "default")
        await make_pod(w, "p", "lost")
        await make_pod(w, "q", "going")
        await asyncio.sleep(1)
        assert 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "v"' in await why(w)
        assert 'persistentvolumeclaim "going" is being deleted' in await why(w, "q")

    in_world(story)


def test_the_first_pod_decides_where_a_volume_is_made() -> None:
    async def story(w: World) -> None:
        await make_class(w, **LATER)
        await make_claim(w)
        await make_pod(w)
        await asyncio.sleep(1)
        node = await selected(w)
        assert node in ("a", "b")
        assert await where(w) == "", "the pod waits for the volume"
        await make_pod(w, "other", "c")
        await w.create_pod("without")
        await asyncio.sleep(1)
        assert await where(w, "without"), "nobody else waits"
        await make_volume(w, on=node, phase="Bound")
        await bind(w)
        await asyncio.sleep(1)
        assert (await where(w), await where(w, "other")) == (node, node)

    in_world(story)


def test_a_volume_that_is_there_is_given_to_the_claim() -> None:
    async def story(w: World) -> None:
        await make_class(w, provisioner="kubernetes.io/no-provisioner", **LATER)
        made = await make_claim(w)
        await make_claim(w, "d")
        await make_volume(w, on="b")
        await make_pod(w)
        await asyncio.sleep(1)
        volume = await w.client.get(PERSISTENT_VOLUMES, "v")
        assert volume.spec.claim_ref is not None
        assert volume.spec.claim_ref.uid == made["metadata"]["uid"]
        assert volume.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
        await make_pod(w, "q", "d")
        await asyncio.sleep(1)
        message = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
        assert (await why(w, "q")).startswith(message), "it was the only one"
        await bind(w)
        await asyncio.sleep(1)
        assert await where(w) == "b"
        await make_volume(w, "w", on="a")
        await asyncio.sleep(12)
        await bind(w, "d", "w")
        await asyncio.sleep(1)
        assert await where(w, "q") == "a", "woken by the volume"

    in_world(story)


def test_two_pods_at_once_do_not_get_one_volume() -> None:
    async def story(w: World) -> None:
        await make_class(w, provisioner="kubernetes.io/no-provisioner", **LATER)
        for name in ("c", "d"):
            await make_claim(w, name)
        await make_volume(w)
        await asyncio.sleep(1)
        with w.scheduler_faults.hold(resource="persistentvolumes"):
            await asyncio.gather(make_pod(w, "p", "c"), make_pod(w, "q", "d"))
            await asyncio.sleep(5)
            told = [await why(w, name) for name in "pq"]
            assert sorted(map(bool, told)) == [False, True], "one of them was refused without a request"

    in_world(story)


def test_a_provisioner_that_gives_the_node_back() -> None:
    async def story(w: World) -> None:
        await make_class(w, **LATER)
        await make_claim(w)
        await make_pod(w)
        await asyncio.sleep(1)
        nothing = merge_patch({"metadata": {"annotations": {SELECTED_NODE: None}}})
        await w.client.patch(PERSISTENT_VOLUME_CLAIMS.raw, "c", nothing, "default")
        await asyncio.sleep(0.5)
        text = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "c"'
        assert await why(w) == text
        await asyncio.sleep(3)
        assert await selected(w), "decided anew"

    in_world(story)


def test_who_waits_too_long_is_decided_anew() -> None:
    async def story(w: World) -> None:
        await make_class(w, **LATER)
        await make_claim(w)
        await make_pod(w)
        await asyncio.sleep(599)
        assert await why(w) == ""
        await asyncio.sleep(1.5)
        assert (await why(w)).endswith("binding volumes: context deadline exceeded")
        await make_volume(w, phase="Bound")
        await bind(w)
        await asyncio.sleep(5)
        assert await where(w)

    in_world(story)


def test_a_pod_that_goes_is_waited_for_no_longer() -> None:
    async def story(w: World) -> None:
        await make_class(w, **LATER)
        await make_claim(w)
        await make_pod(w)
        await asyncio.sleep(1)
        await w.client.delete(PODS, "p", "default", grace_period_seconds=0)
        await asyncio.sleep(1)
        assert await where(w) == "gone"
        await make_pod(w)
        await make_volume(w, phase="Bound")
        await bind(w)
        await asyncio.sleep(5)
        assert await where(w), "the next one of that name is served"

    in_world(story)


def test_a_write_that_meets_a_newer_claim_is_made_again() -> None:
    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(conflict(), verb="update", resource="persistentvolumeclaims", times=1))
        await make_class(w, **LATER)
        await make_claim(w)
        await make_pod(w)
        await asyncio.sleep(5)
        assert await selected(w)

    in_world(story)


def test_ephemeral_claims_are_the_pods_own() -> None:
    async def story(w: World) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await w.create_pod(volumes=[{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}])
        await asyncio.sleep(1)
        text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'
        assert text in await why(w)
        await make_claim(w, "p-e")
        await asyncio.sleep(5)
        assert "PVC default/p-e was not created for pod default/p (pod is not owner)" in await why(w)

    in_world(story)
