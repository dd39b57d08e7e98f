"""Which pod uses which claim, and of which pods the news matter."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.controllers.volumes.persistentvolumeclaim_protection.controller import may_let_go, unused, uses

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SHUT_DOWN = {**GOING, "deletionGracePeriodSeconds": 0}
NAMED = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
RUNS: dict[str, Any] = {"state": {"running": {}}}
ENDED: dict[str, Any] = {"state": {"terminated": {"exitCode": 0}}}


def claim(name: str = "c", *owners: str) -> PersistentVolumeClaim:
    references = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True} for uid in owners]
    doc = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "ownerReferences": references}}
    return msgspec.convert(doc, PersistentVolumeClaim)


def pod(*volumes: dict[str, Any], node: str = "node-0", phase: str = "Running", **more: Any) -> Pod:
    meta = {"name": "p", "namespace": "default", "uid": "uid-p", **more.pop("metadata", {})}
    spec = {"nodeName": node, "volumes": list(volumes)}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase, **more}}, Pod)


EPHEMERAL = {"name": "scratch", "ephemeral": {}}


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        pytest.param(pod(NAMED), claim(), True, id="names it"),
        pytest.param(pod({"name": "c", "emptyDir": {}}), claim(), False, id="has another kind of volume of that name"),
        pytest.param(pod({"name": "x", "emptyDir": {}}, NAMED), claim(), True, id="names it among others"),
        pytest.param(pod(NAMED), claim("other"), False, id="names another one"),
        pytest.param(pod(NAMED, node=""), claim(), False, id="names it and has no node"),
        pytest.param(pod(NAMED, phase="Succeeded"), claim(), True, id="names it and has ended"),
        pytest.param(pod(NAMED, phase="Failed"), claim(), True, id="names it and has failed"),
        pytest.param(pod(NAMED, metadata=SHUT_DOWN), claim(), True, id="names it and is shut down"),
        pytest.param(pod(EPHEMERAL), claim("p-scratch", "uid-p"), True, id="it was made for it"),
        pytest.param(pod(EPHEMERAL), claim("p-scratch"), False, id="one of that name was made by somebody"),
        pytest.param(pod(EPHEMERAL), claim("p-scratch", "uid-q"), False, id="it was made for its predecessor"),
        pytest.param(pod(EPHEMERAL), claim("scratch", "uid-p"), False, id="it was made for it, under another name"),
        pytest.param(pod(EPHEMERAL, node=""), claim("p-scratch", "uid-p"), False, id="made for it, and no node yet"),
        pytest.param(pod(EPHEMERAL, phase="Failed"), claim("p-scratch", "uid-p"), True, id="made for it, and failed"),
        pytest.param(
            pod(EPHEMERAL, metadata=GOING), claim("p-scratch", "uid-p"), True, id="made for it, and it is stopping"
        ),
        pytest.param(
            pod(EPHEMERAL, metadata=SHUT_DOWN), claim("p-scratch", "uid-p"), False, id="made for it, and shut down"
        ),
    ],
)
def test_who_uses_a_claim(found: Pod, wanted: PersistentVolumeClaim, expected: bool) -> None:
    """``podUsesPVC``, ``podIsShutDown`` and ``VolumeIsForPod``."""
    assert uses(found, wanted) is expected
    assert unused([claim("else"), wanted], [found]) == [claim("else"), *([] if expected else [wanted])]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(), False, id="runs"),
        pytest.param(pod(node=""), True, id="has no node"),
        pytest.param(pod(phase="Succeeded"), True, id="has ended"),
        pytest.param(pod(phase="Failed"), True, id="has failed"),
        pytest.param(pod(metadata=GOING, containerStatuses=[RUNS]), False, id="is stopping"),
        pytest.param(pod(metadata=GOING, containerStatuses=[ENDED]), True, id="has stopped"),
        pytest.param(pod(metadata=SHUT_DOWN, containerStatuses=[RUNS]), True, id="was deleted by force"),
    ],
)
def test_news_that_matter(found: Pod, expected: bool) -> None:
    """The filter of ``enqueuePVCs``, with pods that were deleted by force."""
    assert may_let_go(found) is expected
