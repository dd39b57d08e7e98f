"""Admission attributes for the plugin NodeRestriction, with a store of the objects of upstream's tests."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from tests.apiserver.api import Object
from tests.stores import new_store

from pilothouse.apiserver import ApiServer
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.admission.node_restriction.plugin import NodeRestriction
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Decision, Rule
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.resources import ResourceInfo, storage_prefix
from pilothouse.env import Env
from pilothouse.env.virtual import run

MYNODE = Identity("system:node:mynode", ("system:nodes",))
BOB = Identity("bob")
MIRROR = "kubernetes.io/config.mirror"
_KINDS = {
    "pods": ("", "Pod"),
    "nodes": ("", "Node"),
    "persistentvolumeclaims": ("", "PersistentVolumeClaim"),
    "persistentvolumes": ("", "PersistentVolume"),
    "serviceaccounts": ("", "ServiceAccount"),
    "configmaps": ("", "ConfigMap"),
    "leases": ("coordination.k8s.io", "Lease"),
    "csinodes": ("storage.k8s.io", "CSINode"),
    "csidrivers": ("storage.k8s.io", "CSIDriver"),
    "resourceslices": ("resource.k8s.io", "ResourceSlice"),
    "certificatesigningrequests": ("certificates.k8s.io", "CertificateSigningRequest"),
    "podcertificaterequests": ("certificates.k8s.io", "PodCertificateRequest"),
}
Stored = tuple[str, Object]
"""A resource, and an object of it."""


def make_pod(name: str, node: str = "mynode", *, mirror: bool = False, **spec: Any) -> Object:
    """``makeTestPod``."""
    meta: Object = {"namespace": "ns", "uid": "pod-uid", "name": name}
    if mirror:
        meta["annotations"] = {MIRROR: "true"}
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": f"{node}-uid", "controller": True}
        meta["ownerReferences"] = [owner]
    if node:
        spec["nodeName"] = node
    return {"metadata": meta, "spec": spec}


def labelled(pod: Object, **labels: str) -> Object:
    """A copy with these labels."""
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def make_node(name: str = "mynode", *, labels: Object | None = None, owner: str = "", **spec: Any) -> Object:
    """A Node written by its kubelet."""
    meta: Object = {"name": name, "uid": f"{name}-uid"}
    if labels:
        meta["labels"] = labels
    if owner:
        meta["ownerReferences"] = [{"name": owner, "controller": True}]
    return {"metadata": meta, "spec": spec}


PODS = [
    make_pod("mymirrorpod", mirror=True),
    make_pod("othermirrorpod", "othernode", mirror=True),
    make_pod("unboundmirrorpod", "", mirror=True),
    make_pod("mypod"),
    make_pod("otherpod", "othernode"),
    make_pod("unboundpod", ""),
]
BY_NAME = {pod["metadata"]["name"]: pod for pod in PODS}
EXISTING: tuple[Stored, ...] = (("nodes", make_node()), *(("pods", pod) for pod in PODS))


class Decides:
    """An authorizer that expects one request and returns a fixed decision."""

    def __init__(self, expected: Attributes, *, allowed: bool) -> None:
        self._expected = expected
        self._allowed = allowed

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        assert (identity, attributes) == (MYNODE, self._expected)
        return Decision(self._allowed)

    def rules(self, identity: Identity, namespace: str) -> tuple[list[Rule], str]:
        return [], ""


def admit(
    operation: str,
    resource: str,
    obj: Object | None = None,
    old: Object | None = None,
    *,
    name: str | None = None,
    namespace: str | None = None,
    user: Identity = MYNODE,
    existing: Iterable[Stored] = EXISTING,
    authorizer: Decides | None = None,
) -> StatusError | None:
    """The plugin's decision for a write of ``pods`` or ``pods/status``. Names default to those of the object."""

    async def main(env: Env) -> StatusError | None:
        core = ApiServer(env, new_store(env)).core
        for kind, stored in existing:
            await _put(core.store, kind, stored)
        if authorizer is not None:
            core.authorizer = authorizer
        kind, _slash, subresource = resource.partition("/")
        group, go_kind = _KINDS[kind]
        meta = (obj or old or {}).get("metadata") or {}
        write = AdmissionAttributes(
            operation=operation,
            info=ResourceInfo(group, "v1", kind, go_kind, namespaced=True),
            namespace=meta.get("namespace", "") if namespace is None else namespace,
            name=meta.get("name", "") if name is None else name,
            identity=user,
            subresource=subresource,
            obj=obj,
            old=old,
        )
        try:
            NodeRestriction(core).admit(write)
        except StatusError as error:
            return error
        return None

    return run(main)


async def _put(store: Any, resource: str, obj: Object) -> None:
    group, kind = _KINDS[resource]
    whole = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, **obj}
    meta = obj["metadata"]
    namespace = f"{meta['namespace']}/" if meta.get("namespace") else ""
    key = f"{storage_prefix(group, resource)}{namespace}{meta['name']}"
    await store.commit(store.stage(key, lambda _revision: json.dumps(whole, separators=(",", ":")).encode()))


def expect(error: StatusError | None, words: str) -> None:
    """Assert that the error contains these words, or that there is none if ``words`` is empty."""
    if not words:
        assert error is None, error
        return
    if error is None:
        pytest.fail(f"admitted, expected {words!r}")
    assert words in error.message
