"""Anonymized objects contain no user-chosen text, and references between them still match."""

import json
import re
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.snapshots.anonymizing import REDACTED, Anonymizer
from pilothouse.snapshots.file_format import ResourceLine

Object = dict[str, Any]
PODS = ResourceLine(resource="pods", version="v1", kind="Pod", namespaced=True)
SECRETIVE: Object = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "acme-shop-7d4b9-x2x4z",
        "generateName": "acme-shop-7d4b9-",
        "namespace": "acme",
        "uid": "44867ad6-429a-4cc9-9a4a-f441ae2f2b9d",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "acme-shop", "acme.example/owner": "alice", "topology.kubernetes.io/zone": "acme-1"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"spec":"acme"}',
            "acme.example/contact": "alice@acme.example",
            "cni.projectcalico.org/podIP": "acme",
        },
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "acme-shop-7d4b9", "uid": "u", "controller": True},
            {"apiVersion": "acme.example/v1", "kind": "AcmeShop", "name": "acme", "uid": "v"},
        ],
        "finalizers": ["acme.example/done", "foregroundDeletion"],
        "managedFields": [{"manager": "acme-operator"}],
    },
    "spec": {
        "nodeName": "host1.acme.example",
        "hostname": "acme-host",
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db.acme.example"]}],
        "imagePullSecrets": [{"name": "acme-registry"}],
        "serviceAccountName": "acme-shop",
        "schedulerName": "AcmeScheduler",
        "restartPolicy": "Always",
        "containers": [
            {
                "name": "acme",
                "image": "registry.acme.example:5000/acme/shop:1.2.3@sha256:acme0123",
                "command": ["/bin/sh", "-c", "sleep", "5", "/opt/acme --password=hunter2"],
                "args": ["--token=acme"],
                "workingDir": "/acme",
                "env": [
                    {"name": "ACME_PASSWORD", "value": "hunter2"},
                    {"name": "ACME_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "ACME_KEY", "valueFrom": {"secretKeyRef": {"name": "acme-keys", "key": "acme.key"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "acme-config"}}],
                "ports": [{"name": "acme-web", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "acme.example/gpu": "1"}},
                "readinessProbe": {
                    "httpGet": {
                        "path": "/acme",
                        "port": "acme-web",
                        "httpHeaders": [{"name": "X-Acme", "value": "acme"}],
                    }
                },
            }
        ],
        "volumes": [{"name": "acme-data", "hostPath": {"path": "/mnt/acme"}}],
    },
    "status": {
        "phase": "Running",
        "message": "acme says hello",
        "podIP": "10.1.2.3",
        "hostIP": "8.8.8.8",
        "conditions": [{"type": "Ready", "status": "False", "reason": "AcmeIsDown", "message": "acme"}],
        "containerStatuses": [
            {"name": "acme", "image": "acme/shop", "imageID": "acme@sha256:00", "containerID": "containerd://acme"}
        ],
    },
}
LEAKS = re.compile("acme|alice|hunter2|registry|shop|8\\.8\\.8\\.8|x2x4z", re.IGNORECASE)


def test_nothing_leaks() -> None:
    result = Anonymizer()(PODS, SECRETIVE)
    # Reasons are words in camel case, which programs choose and not people.
    result["status"]["conditions"][0].pop("reason")
    assert not LEAKS.search(json.dumps(result)), json.dumps(result, indent=1)


def test_references_and_selectors_still_match() -> None:
    result = Anonymizer()(PODS, SECRETIVE)
    meta, spec = result["metadata"], result["spec"]
    owner, other = meta["ownerReferences"]
    assert meta["generateName"] == f"{owner['name']}-"
    assert meta["name"].startswith(meta["generateName"])
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == ("apps/v1", "ReplicaSet", "u")
    assert other["kind"] != "AcmeShop"
    assert other["kind"][0].isupper()
    assert meta["labels"].keys() > {"topology.kubernetes.io/zone"}
    assert spec["serviceAccountName"] in meta["labels"].values(), "both are acme-shop"
    container = spec["containers"][0]
    assert container["ports"][0]["name"] == container["readinessProbe"]["httpGet"]["port"]
    assert container["name"] == result["status"]["containerStatuses"][0]["name"]
    assert meta["namespace"] == container["name"], "a word is the same everywhere"
    assert len(meta["name"]) == len(SECRETIVE["metadata"]["name"])
    assert meta["uid"] == SECRETIVE["metadata"]["uid"]
    assert "managedFields" not in meta
    assert meta["annotations"] == {}
    assert meta["finalizers"][1] == "foregroundDeletion"


def test_values_used_by_controllers_and_nodes_are_kept() -> None:
    result = Anonymizer()(PODS, SECRETIVE)
    container = result["spec"]["containers"][0]
    assert container["command"] == ["/bin/sh", "-c", "sleep", "5", REDACTED]
    assert [item.get("value") for item in container["env"]] == [REDACTED, None, None]
    assert container["env"][1]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert container["resources"]["requests"]["cpu"] == "100m"
    assert result["status"]["phase"] == "Running"
    assert result["status"]["podIP"] == "10.1.2.3"
    assert result["spec"]["restartPolicy"] == "Always"
    assert result["status"]["conditions"][0]["type"] == "Ready"
    assert result["status"]["conditions"][0]["message"] == ""


def line(kind: str, resource: str, group: str = "", version: str = "v1") -> ResourceLine:
    return ResourceLine(resource=resource, group=group, version=version, kind=kind)


@cases(
    "of, obj, kept, removed",
    {
        "values of ConfigMaps": (
            line("ConfigMap", "configmaps"),
            {"data": {"ca.crt": "acme", "acme.conf": "acme"}, "binaryData": {"acme": "YWNtZQ=="}},
            ["ca.crt", REDACTED],
            ["YWNtZQ"],
        ),
        "values of Secrets": (
            line("Secret", "secrets"),
            {"type": "kubernetes.io/tls", "data": {"acme": "YWNtZQ=="}},
            ["kubernetes.io/tls"],
            ["YWNtZQ"],
        ),
        "users and groups": (
            line("ClusterRoleBinding", "clusterrolebindings", "rbac.authorization.k8s.io"),
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
                "subjects": [
                    {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:acme"},
                    {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:node:host.acme"},
                    {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "Alice"},
                ],
            },
            ['"system:node"', '"system:serviceaccounts:', '"system:node:', '"User"'],
            [],
        ),
        "rules about custom resources": (
            line("ClusterRole", "clusterroles", "rbac.authorization.k8s.io"),
            {
                "rules": [
                    {
                        "apiGroups": ["apps", "acme.example"],
                        "resources": ["deployments/scale", "acmes"],
                        "verbs": ["get"],
                    }
                ]
            },
            ['"apps"', '"deployments/scale"', '"get"'],
            [],
        ),
        "machines": (
            line("Node", "nodes"),
            {
                "spec": {"providerID": "aws:///acme-1/i-0123", "podCIDR": "10.0.0.0/24"},
                "status": {"nodeInfo": {"machineID": "44867ad6-429a-4cc9-9a4a-f441ae2f2b9d", "architecture": "amd64"}},
            },
            ["10.0.0.0/24", "amd64"],
            ["44867ad6", "0123", "aws"],
        ),
        "the defaults of a LimitRange": (
            line("LimitRange", "limitranges"),
            {"spec": {"limits": [{"type": "Container", "default": {"cpu": "500m", "acme.example/gpu": "1"}}]}},
            ['"default": {"cpu": "500m"'],
            [],
        ),
        "custom resources": (
            line("AcmeShop", "acmeshops", "acme.example"),
            {"spec": {"size": 3, "acmeField": ["Acme", {"alice": "alice@acme.example"}]}, "status": {"acme": True}},
            ['"spec"', '"status"', "3"],
            [],
        ),
        "the schema of custom resources": (
            line("CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io"),
            {
                "spec": {
                    "group": "acme.example",
                    "scope": "Namespaced",
                    "names": {"plural": "acmes", "kind": "Acme", "singular": "acme", "categories": ["all-acme"]},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {
                                    "type": "object",
                                    "description": "acme",
                                    "properties": {
                                        "spec": {
                                            "type": "object",
                                            "x-kubernetes-validations": [{"rule": "self.acme"}],
                                            "properties": {
                                                "acme": {"type": "string", "pattern": "^acme$", "default": "acme"}
                                            },
                                            "required": ["acme"],
                                        }
                                    },
                                }
                            },
                        }
                    ],
                }
            },
            ['"Namespaced"', '"object"', '"string"', '"spec"', '"v1"'],
            ["validations", "pattern", "default"],
        ),
    },
)
def test_custom_kinds(of: ResourceLine, obj: Object, kept: list[str], removed: list[str]) -> None:
    meta = {"name": "acme", "uid": "u", "resourceVersion": "1"}
    text = json.dumps(Anonymizer()(of, {"kind": of.kind, "apiVersion": of.api_version, "metadata": meta, **obj}))
    assert not LEAKS.search(text), text
    for part in kept:
        assert part in text, text
    for part in removed:
        assert part not in text, text


def test_custom_resources_match_their_definition() -> None:
    anonymizer = Anonymizer()
    of = line("AcmeShop", "acmeshops", "acme.example")
    obj = anonymizer(of, {"kind": "AcmeShop", "apiVersion": "acme.example/v1", "metadata": {"name": "a", "uid": "u"}})
    announced = anonymizer.line(of)
    assert (obj["kind"], obj["apiVersion"]) == (announced.kind, announced.api_version)
    definition = anonymizer(
        line("CustomResourceDefinition", "customresourcedefinitions", "apiextensions.k8s.io"),
        {
            "kind": "CustomResourceDefinition",
            "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": "acmeshops.acme.example", "uid": "u"},
            "spec": {"group": "acme.example", "names": {"plural": "acmeshops", "kind": "AcmeShop"}},
        },
    )
    assert definition["metadata"]["name"] == announced.group_resource
    assert definition["spec"]["names"] == {"plural": announced.resource, "kind": announced.kind}


def test_pseudonyms_are_different_each_time() -> None:
    names = {Anonymizer()(PODS, SECRETIVE)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5


def test_short_words_have_unique_pseudonyms() -> None:
    """There are 26 pseudonyms of one letter; then longer ones are used."""
    anonymizer = Anonymizer(choose=lambda characters: characters[0])
    objects = [{**SECRETIVE, "metadata": {"name": name, "uid": name}} for name in ("b", "c", "d")]
    names = [anonymizer(PODS, obj)["metadata"]["name"] for obj in objects]
    assert len(set(names)) == 3


@pytest.mark.parametrize("text", ["kube-system", "default", "kube-root-ca.crt"])
def test_names_of_kubernetes_are_kept(text: str) -> None:
    assert Anonymizer()(PODS, {**SECRETIVE, "metadata": {"name": text, "uid": "u"}})["metadata"]["name"] == text
