"""Sequences of applies, updates and patches of many kinds, and their configurations."""

from typing import Any

Object = dict[str, Any]
Step = tuple[str, str, Any, str]
"""Method, path, body and content type."""

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json"

_CM = "/api/v1/namespaces/default/configmaps"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_SERVICES = "/api/v1/namespaces/default/services"
_PODS = "/api/v1/namespaces/default/pods"
_CRONTABS = "/apis/story.example.com/v1/namespaces/default/crontabs"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def config_map(name: str = "c", meta: Object | None = None, **data: Any) -> Object:
    """A configuration of a ConfigMap."""
    result: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(meta or {})}}
    return {**result, "data": data} if data else result


def deployment(containers: Any = None, **spec: Any) -> Object:
    """A configuration of a Deployment."""
    pod = {"containers": containers or [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": whole}


def service(*ports: Object, **spec: Any) -> Object:
    """A configuration of a Service."""
    whole = {"ports": list(ports), "selector": {"a": "b"}, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": whole}


def crontab(spec: Any, **more: Any) -> Object:
    """A configuration of a custom resource."""
    result: Object = {"apiVersion": "story.example.com/v1", "kind": "CronTab", "metadata": {"name": "t"}}
    return {**result, "spec": spec, **more}


CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "crontabs.story.example.com"},
    "spec": {
        "group": "story.example.com",
        "scope": "Namespaced",
        "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "cron": {"type": "string"},
                                    "count": {"type": "integer"},
                                    "ports": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                                        "items": {
                                            "type": "object",
                                            "required": ["port", "protocol"],
                                            "properties": {
                                                "port": {"type": "integer"},
                                                "protocol": {"type": "string", "default": "TCP"},
                                                "name": {"type": "string"},
                                            },
                                        },
                                    },
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "list": {"type": "array", "items": {"type": "string"}},
                                    "whole": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                                    },
                                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "either": {"x-kubernetes-int-or-string": True},
                                },
                            },
                            "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}

_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "x"}, "finalizers": ["example.com/a"]},
    "spec": {"containers": [{"name": "main", "image": "nginx", "env": [{"name": "A", "value": "1"}]}]},
}

_TWO = [{"name": "e", "image": "i"}, {"name": "b", "image": "i"}]


def _apply(path: str, body: Any, manager: str, more: str = "") -> tuple[str, str, Any, str]:
    return "PATCH", f"{path}?fieldManager={manager}{more}", body, APPLY


STEPS: dict[str, list[Step]] = {
    "create, change and leave out": [
        _apply(_CM + "/c", config_map(a="1", b="1"), "m1"),
        _apply(_CM + "/c", config_map(a="1", b="1"), "m1"),
        _apply(_CM + "/c", config_map(a="2"), "m1"),
        _apply(_CM + "/c", config_map(), "m1"),
        _apply(_CM + "/c", config_map(z="1"), "m1"),
    ],
    "share, conflict and force": [
        _apply(_CM + "/c", config_map(a="1", b="1"), "m1"),
        _apply(_CM + "/c", config_map(a="1"), "m2"),
        _apply(_CM + "/c", config_map(b="1"), "m1"),
        _apply(_CM + "/c", config_map(a="2", b="2"), "m3"),
        _apply(_CM + "/c", config_map(a="2", b="2"), "m3", "&force=true"),
        _apply(_CM + "/c", config_map(a="2"), "m3"),
    ],
    "updates between applies": [
        ("POST", _CM + "?fieldManager=u1", config_map(a="1", b="1"), JSON),
        ("PATCH", _CM + "/c?fieldManager=u2", {"data": {"b": "2", "c": "2"}}, MERGE),
        _apply(_CM + "/c", config_map(a="3", c="3"), "m1"),
        _apply(_CM + "/c", config_map(a="3", c="3"), "m1", "&force=true"),
        ("PATCH", _CM + "/c?fieldManager=u1", {"data": {"a": "4"}, "metadata": {"labels": {"x": "y"}}}, MERGE),
        _apply(_CM + "/c", config_map(c="3"), "m1"),
        ("PATCH", _CM + "/c?fieldManager=u1", {"data": None}, MERGE),
        _apply(_CM + "/c", config_map(c="3", meta={"labels": {"x": "z"}}), "m1"),
        (
            "PATCH",
            _CM + "/c?fieldManager=u3",
            [{"op": "remove", "path": "/metadata/labels"}],
            "application/json-patch+json",
        ),
    ],
    "nobody has applied before": [
        ("POST", _CM + "?fieldManager=u1", config_map(a="1", b="1"), JSON),
        ("PATCH", _CM + "/c?fieldManager=u1", {"metadata": {"managedFields": [{}]}}, MERGE),
        _apply(_CM + "/c", config_map(a="2"), "m1"),
        _apply(_CM + "/c", config_map(a="2"), "m1", "&force=true"),
    ],
    "metadata": [
        _apply(
            _CM + "/c",
            config_map(meta={"labels": {"a": "1"}, "annotations": {"n": "1"}, "finalizers": ["x.y/a"]}),
            "m1",
        ),
        _apply(_CM + "/c", config_map(meta={"labels": {"b": "1"}, "finalizers": ["x.y/b"]}), "m2"),
        ("PATCH", _CM + "/c?fieldManager=u1", {"metadata": {"finalizers": ["x.y/a", "x.y/b", "x.y/c"]}}, MERGE),
        _apply(_CM + "/c", config_map(meta={"labels": {"a": "2"}}), "m1"),
        _apply(_CM + "/c", config_map(), "m2"),
    ],
    "a deployment": [
        _apply(_DEPLOYMENTS + "/d", deployment(replicas=2), "m1"),
        ("PATCH", _DEPLOYMENTS + "/d?fieldManager=u1", {"spec": {"replicas": 3}}, MERGE),
        _apply(_DEPLOYMENTS + "/d", deployment(replicas=2), "m1"),
        _apply(_DEPLOYMENTS + "/d", deployment(), "m1"),
        _apply(_DEPLOYMENTS + "/d", deployment(_TWO), "m1"),
        _apply(_DEPLOYMENTS + "/d", deployment([{"name": "b", "image": "j"}, {"name": "a", "image": "i"}]), "m2"),
        _apply(
            _DEPLOYMENTS + "/d",
            deployment([{"name": "b", "image": "j"}, {"name": "a", "image": "i"}]),
            "m2",
            "&force=true",
        ),
        _apply(_DEPLOYMENTS + "/d", deployment([{"name": "e", "image": "i"}]), "m1"),
        _apply(_DEPLOYMENTS + "/d", deployment(strategy={"type": "Recreate"}), "m3", "&force=true"),
        _apply(
            _DEPLOYMENTS + "/d/status", {"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 1}}, "st"
        ),
        (
            "PATCH",
            _DEPLOYMENTS + "/d/status?fieldManager=u2",
            {"spec": {"replicas": 9}, "status": {"replicas": 2, "updatedReplicas": 1}},
            MERGE,
        ),
        _apply(_DEPLOYMENTS + "/d", {**deployment(_TWO), "status": {"replicas": 5}}, "m1", "&force=true"),
    ],
    "a service": [
        _apply(_SERVICES + "/s", service({"port": 80}, {"port": 443, "name": "b"}), "m1"),
        _apply(_SERVICES + "/s", service({"port": 80, "name": "a"}, {"port": 443, "name": "b"}), "m1"),
        _apply(_SERVICES + "/s", service({"port": 80, "protocol": "UDP", "name": "u"}), "m2"),
        _apply(_SERVICES + "/s", service({"port": 443, "name": "b"}), "m1"),
        ("PATCH", _SERVICES + "/s?fieldManager=u1", {"spec": {"ports": [{"port": 81, "name": "x"}]}}, STRATEGIC),
        _apply(_SERVICES + "/s", service({"port": 81, "name": "y"}), "m2"),
        _apply(_SERVICES + "/s", service({"name": "y"}), "m2"),
    ],
    "a pod": [
        _apply(_PODS + "/p", _POD, "m1"),
        ("PATCH", _PODS + "/p/status?fieldManager=k", {"status": {"phase": "Running"}}, STRATEGIC),
        (
            "PATCH",
            _PODS + "/p/status?fieldManager=k",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]}},
            STRATEGIC,
        ),
        (
            "PATCH",
            _PODS + "/p/status?fieldManager=k2",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            STRATEGIC,
        ),
        _apply(_PODS + "/p", {**_POD, "metadata": {"name": "p", "labels": {"app": "y"}}}, "m1"),
    ],
    "a custom resource": [
        _apply(
            _CRONTABS + "/t",
            crontab(
                {
                    "cron": "x",
                    "ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}],
                    "tags": ["a", "b"],
                    "list": ["a"],
                    "whole": {"a": "1"},
                    "map": {"a": "1"},
                    "free": {"x": {"y": 1}},
                    "either": 1,
                }
            ),
            "m1",
        ),
        ("PATCH", _CRONTABS + "/t?fieldManager=u1", {"spec": {"tags": ["b", "c"], "list": ["b"]}}, MERGE),
        _apply(
            _CRONTABS + "/t", crontab({"tags": ["d"], "map": {"b": "1"}, "ports": [{"port": 80, "name": "n"}]}), "m2"
        ),
        _apply(_CRONTABS + "/t", crontab({"whole": {"b": "1"}, "list": ["z"]}), "m2"),
        _apply(_CRONTABS + "/t", crontab({"whole": {"b": "1"}, "list": ["z"]}), "m2", "&force=true"),
        _apply(_CRONTABS + "/t", crontab({"cron": "x", "tags": ["a"], "free": {"x": {"z": 1}}}), "m1"),
        _apply(_CRONTABS + "/t/status", {**crontab({"cron": "no"}), "status": {"count": 1}}, "st"),
        _apply(_CRONTABS + "/t", crontab({"cron": "x"}), "m1"),
        ("POST", _CRONTABS + "?fieldManager=u1", {**crontab({"cron": "x"}), "metadata": {"name": "t2"}}, JSON),
    ],
    "refused": [
        _apply(_CM + "/c", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}}, "m1"),
        _apply(_CM + "/c", {"apiVersion": "v1", "kind": "ConfigMap", "datum": {}}, "m1"),
        _apply(_CM + "/c", {"apiVersion": "v1", "kind": "ConfigMap", "data": "x"}, "m1"),
        _apply(_CM + "/c", {"kind": "ConfigMap"}, "m1"),
        _apply(_CM + "/c", {"apiVersion": "apps/v1", "kind": "Deployment"}, "m1"),
        _apply(_CM + "/c", config_map(meta={"managedFields": []}), "m1"),
        _apply(_CM + "/c", config_map("other"), "m1"),
        ("PATCH", _CM + "/c", config_map(), APPLY),
        ("PATCH", _CM + "/c?fieldManager=m&force=true", {}, MERGE),
        _apply(_DEPLOYMENTS + "/d", deployment([{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]), "m1"),
        _apply(_DEPLOYMENTS + "/d", deployment(replicas="x"), "m1"),
        _apply(_DEPLOYMENTS + "/d", deployment(paused=1), "m1"),
        _apply(_DEPLOYMENTS + "/d", deployment(template=[]), "m1"),
        _apply(_DEPLOYMENTS + "/d", deployment(selector="x"), "m1"),
        _apply(_CRONTABS + "/t", crontab({"tags": ["a", "a"]}), "m1"),
        _apply(_CRONTABS + "/t", crontab({"tags": [None]}), "m1"),
        _apply(_CRONTABS + "/t", crontab({"unknown": 1}), "m1"),
        _apply(_DEPLOYMENTS + "/none/status", deployment(), "m1"),
    ],
}
