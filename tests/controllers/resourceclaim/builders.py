"""Builders of pods, claims and templates: manifests for the server, and views for decisions."""

from typing import Any, TypeVar

import msgspec

from pilothouse.api.core import Pod
from pilothouse.api.resource import ResourceClaim

Doc = dict[str, Any]
T = TypeVar("T")

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
FINALIZER = "resource.kubernetes.io/delete-protection"
DELETED = "2026-01-01T00:00:00Z"
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "template"}


def view(doc: Doc, kind: type[T]) -> T:
    """A document as controllers read it."""
    return msgspec.convert(doc, kind)


def pod_doc(
    name: str = "pod",
    uid: str = "pod-uid",
    *,
    entries: Any = (ENTRY,),
    named: Any = None,
    node: str = "",
    **status: Any,
) -> Doc:
    """A pod with these entries; ``named`` are the claims that its status names."""
    if named is not None:
        status["resourceClaimStatuses"] = [
            {"name": entry, "resourceClaimName": claim} for entry, claim in named.items()
        ]
    spec = {"nodeName": node, "resourceClaims": list(entries)}
    return {"metadata": {"name": name, "namespace": "default", "uid": uid}, "spec": spec, "status": status}


def pod(name: str = "pod", uid: str = "pod-uid", *, deleted: bool = False, **more: Any) -> Pod:
    """The same as a view."""
    doc = pod_doc(name, uid, **more)
    if deleted:
        doc["metadata"]["deletionTimestamp"] = DELETED
    return view(doc, Pod)


def reference(name: str = "pod", uid: str = "pod-uid") -> Doc:
    """A reservation."""
    return {"resource": "pods", "name": name, "uid": uid}


def owner(name: str = "pod", uid: str = "pod-uid") -> Doc:
    """The owner reference of a claim created for a pod."""
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}


def claim_doc(
    name: str = "claim", *, owner: Doc | None = None, users: Any = (), allocated: bool = False, **metadata: Any
) -> Doc:
    """A claim."""
    meta = {"name": name, "namespace": "default", **metadata}
    if owner is not None:
        meta["ownerReferences"] = [owner]
    status: Doc = {}
    if users:
        status["reservedFor"] = list(users)
    if allocated:
        status["allocation"] = {"devices": {"results": []}}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]
    return {"metadata": meta, "spec": {"devices": {"requests": requests}}, "status": status}


def claim(name: str = "claim", *, finalizer: bool = False, deleted: bool = False, **more: Any) -> ResourceClaim:
    """The same as a view."""
    doc = claim_doc(name, **more)
    if finalizer:
        doc["metadata"]["finalizers"] = [FINALIZER]
    if deleted:
        doc["metadata"]["deletionTimestamp"] = DELETED
    return view(doc, ResourceClaim)
