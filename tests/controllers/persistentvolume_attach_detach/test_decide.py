"""Detach decisions, and multi-attach error events.

Rows mirror v1.36 ``pkg/controller/volume/attachdetach/reconciler/reconciler_test.go`` (read in public copies of several
releases): the detaching of Test_Run_… and Test_ReportMultiAttachError.
"""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import Node, Pod
from pilothouse.controllers.volumes.persistentvolume_attach_detach.decide import (
    Detach,
    Observed,
    Wait,
    decide_detach,
    is_healthy,
    is_out_of_service,
    multi_attach_messages,
)
from pilothouse.semantics.attachments import Disk

LONG = 360.1


def observed(**facts: Any) -> Observed:
    return Observed(**{"mounted": False, "healthy": True, "out_of_service": False, "waited": 0.0, **facts})


@cases(
    "facts, decision",
    {
        "not mounted": (observed(), Detach()),
        "mounted": (observed(mounted=True), Wait()),
        "mounted, on a node that is unwell": (observed(mounted=True, healthy=False), Wait()),
        "six minutes are not over": (observed(mounted=True, healthy=False, waited=360.0), Wait()),
        "six minutes are over": (observed(mounted=True, healthy=False, waited=LONG), Detach("timeout")),
        "mounted on a healthy node after the timeout": (observed(mounted=True, waited=LONG), Wait()),
        "force detach disabled": (observed(mounted=True, healthy=False, waited=LONG, force=False), Wait()),
        "out of service: at once": (observed(mounted=True, out_of_service=True), Detach("out-of-service")),
        "out of service and not mounted": (observed(out_of_service=True), Detach("out-of-service")),
        "out of service, and the time is over: counted as that": (
            observed(mounted=True, healthy=False, out_of_service=True, waited=LONG),
            Detach("timeout"),
        ),
        "out-of-service taint with force detach disabled": (
            observed(mounted=True, healthy=False, out_of_service=True, waited=LONG, force=False),
            Detach("out-of-service"),
        ),
        "timeout without reading the node": (observed(waited=LONG), Detach("timeout")),
        "no volumesInUse, within ten seconds": (observed(mounted=True, unreported=True, waited=10.0), Wait()),
        "no volumesInUse after ten seconds": (observed(mounted=True, unreported=True, waited=10.1), Detach()),
        "no volumesInUse after the timeout": (observed(mounted=True, unreported=True, waited=LONG), Detach()),
        "no volumesInUse, unhealthy node": (
            observed(mounted=True, unreported=True, healthy=False, waited=10.1),
            Wait(),
        ),
        "no volumesInUse, unhealthy node, after the timeout": (
            observed(mounted=True, unreported=True, healthy=False, waited=LONG),
            Detach("timeout"),
        ),
        "a node out of service is not read": (
            observed(mounted=True, unreported=True, out_of_service=True, waited=10.1),
            Detach("out-of-service"),
        ),
    },
)
def test_detach_conditions(facts: Observed, decision: Wait | Detach) -> None:
    assert decide_detach(facts) == decision


def node(*taints: str, ready: str = "True") -> Node:
    doc = {
        "spec": {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }
    return msgspec.convert(doc, Node)


def test_node_state() -> None:
    assert is_healthy(node())
    assert not is_healthy(node(ready="Unknown"))
    assert not is_healthy(node(ready="False"))
    assert not is_healthy(None), "one that is not there"
    assert is_out_of_service(node("a", "node.kubernetes.io/out-of-service"))
    assert not is_out_of_service(node("node.kubernetes.io/not-ready"))
    assert not is_out_of_service(None)


def pod(key: str) -> Pod:
    namespace, _slash, name = key.partition("/")
    return msgspec.convert({"metadata": {"namespace": namespace, "name": name}}, Pod)


ALONE = "Volume is already exclusively attached to one node and can't be attached to another"


@cases(
    "users, text",
    {
        "no pods use the volume": ((), ALONE),
        "pods in the same namespace use the volume": (("ns1/b",), "Volume is already used by pod(s) b"),
        "several pods in the same namespace": (("ns1/b", "ns1/c"), "Volume is already used by pod(s) b, c"),
        "pods in another namespace use the volume": (
            ("ns2/b",),
            "Volume is already used by 1 pod(s) in different namespaces",
        ),
        "pods both in the same and another namespace use the volume": (
            ("ns1/b", "ns2/c", "ns3/d"),
            "Volume is already used by pod(s) b and 2 pod(s) in different namespaces",
        ),
    },
)
def test_multi_attach_error_events(users: tuple[str, ...], text: str) -> None:
    disk, waiting = Disk("name", "pv", "d", "h", True), pod("ns1/a")
    reported = multi_attach_messages(disk, [waiting], [pod(user) for user in users])
    assert reported == [(waiting, f'Multi-Attach error for volume "pv" {text}')]
