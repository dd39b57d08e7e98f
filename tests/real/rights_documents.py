"""Manifests for ``test_all_rights``, used by ``rights_scenario``."""

from typing import Any

from tests.clients.stateful_scenarios import CLAIMS
from tests.clients.stateful_scenarios import stateful_set as numbered
from tests.real.cluster_view import replica_set

Doc = dict[str, Any]

GROUP = "rights.example.com"


def custom(kind: str, name: str, *owners: Doc) -> Doc:
    """An object of one of the kinds below."""
    metadata = {"name": name, "ownerReferences": list(owners)}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}


def definition(plural: str, kind: str, scope: str) -> Doc:
    """A custom resource definition."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": scope, "names": names, "versions": [version]},
    }


def deployment(image: str = "pause:1") -> Doc:
    """A Deployment with two pods and revisionHistoryLimit 1."""
    result = replica_set("shop", 2)
    result["kind"] = "Deployment"
    result["spec"]["revisionHistoryLimit"] = 1
    result["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return result


def stateful_set(image: str = "pause:1", *, replicas: int = 2) -> Doc:
    """A StatefulSet with claims and revisionHistoryLimit 1."""
    result = numbered("store", replicas=replicas, revisionHistoryLimit=1, volumeClaimTemplates=CLAIMS)
    result["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return result


def daemon_set(image: str = "pause:1") -> Doc:
    """A DaemonSet for the three healthy nodes with revisionHistoryLimit 1."""
    works = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0", "node-1", "node-2"]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [works]}]}
        }
    }
    containers = [{"name": "main", "image": image}]
    spec = {"terminationGracePeriodSeconds": 1, "containers": containers, "affinity": affinity}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": spec},
        },
    }
