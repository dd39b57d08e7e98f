"""Status bodies of rejected requests.

``golden/errors.json`` has them. They are those of kube-apiserver v1.36.2, or of v1.20.2 where its source has not
changed since; uids are masked.
"""

import asyncio
import json
import re
from typing import Any

from tests.apiserver.api import (
    CONFIG_MAPS,
    JSON,
    JSON_PATCH,
    LEASES,
    MERGE,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STRATEGIC,
    Api,
    config_map,
    pod,
    replica_set,
)
from tests.apiserver.endpoints.apply_scenarios import APPLY, CRD, crontab, deployment, service
from tests.golden import Golden

from pilothouse.env import Env

Object = dict[str, Any]
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

C = f"{CONFIG_MAPS}/c"
APPLY_C = f"{C}?fieldManager=m"
APPLY_D = "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=m"
APPLY_S = "/api/v1/namespaces/default/services/s?fieldManager=m"
APPLY_T = "/apis/story.example.com/v1/namespaces/default/crontabs/t?fieldManager=m"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
SETS = "/apis/apps/v1/namespaces/default/daemonsets"


def changed(**metadata: Any) -> Object:
    return config_map(metadata=metadata)


REQUESTS: tuple[tuple[Any, ...], ...] = (
    ("GET", f"{CONFIG_MAPS}/x"),
    ("GET", f"{REPLICA_SETS}/x"),
    ("GET", "/api/v1/odds"),
    ("POST", "/api/v1/odds", {}),
    ("POST", C, {}),
    ("PUT", CONFIG_MAPS, {}),
    ("POST", "/api/v1/pods", pod()),
    # Options. Numbers are read before selectors, and selectors before all else.
    ("GET", f"{CONFIG_MAPS}?limit=1_0"),
    ("GET", f"{CONFIG_MAPS}?limit=99999999999999999999"),
    ("GET", f"{CONFIG_MAPS}?labelSelector=a+in+%28&limit=x"),
    ("GET", f"{CONFIG_MAPS}?labelSelector=a+in+%28&resourceVersionMatch=Exact"),
    ("GET", f"{CONFIG_MAPS}?labelSelector=a%3D%3D%3D"),
    ("GET", f"{CONFIG_MAPS}?fieldSelector=metadata.name"),
    ("GET", f"{CONFIG_MAPS}?fieldSelector=spec.x%3Dy"),
    ("GET", f"{CONFIG_MAPS}?resourceVersion=-1"),
    ("GET", f"{CONFIG_MAPS}?resourceVersionMatch=Exact"),
    ("GET", f"{CONFIG_MAPS}?resourceVersion=0&resourceVersionMatch=Exact"),
    ("GET", f"{CONFIG_MAPS}?resourceVersion=5&resourceVersionMatch=Exact"),
    ("GET", f"{CONFIG_MAPS}?sendInitialEvents=true"),
    ("GET", f"{CONFIG_MAPS}?continue=!!&limit=1"),
    ("POST", f"{PODS}?fieldManager=%01", pod("x")),
    ("POST", f"{PODS}?fieldManager=%C3%BCa%7F%E2%80%8B", pod("x")),
    ("POST", f"{PODS}?fieldManager={'%C3%BC' * 65}", pod("x")),
    # Creations
    ("POST", CONFIG_MAPS, b""),
    ("POST", CONFIG_MAPS, b"{"),
    ("POST", CONFIG_MAPS, {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}}),
    ("POST", CONFIG_MAPS, {"apiVersion": "foo/v1", "kind": "Foo", "metadata": {"name": "c"}}),
    ("POST", PODS, pod(containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "x"}}}])),
    ("POST", "/api/v1/namespaces/missing/configmaps", config_map()),
    ("POST", CONFIG_MAPS, changed(namespace="other")),
    ("POST", CONFIG_MAPS, config_map()),
    ("POST", CONFIG_MAPS, changed(generateName="d-")),
    ("POST", CONFIG_MAPS, {"metadata": {}}),
    ("POST", JOBS, {"spec": {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}}),
    ("POST", CONFIG_MAPS, config_map("d", metadata={"resourceVersion": "5"})),
    ("POST", CONFIG_MAPS, config_map("Bad", metadata={"resourceVersion": "7"})),
    ("POST", NAMESPACES, {"metadata": {"name": "A"}}),
    ("POST", CONFIG_MAPS, config_map("d", metadata={"finalizers": ["foo"]})),
    ("POST", CONFIG_MAPS, config_map("d", metadata={"finalizers": ["orphan", "foregroundDeletion"]})),
    ("POST", CONFIG_MAPS, config_map("d", metadata={"ownerReferences": [OWNER]})),
    ("POST", PODS, {"metadata": {"name": "x"}, "spec": {}}),
    ("POST", PODS, pod("x", priorityClassName="y")),
    ("POST", REPLICA_SETS, replica_set("x", replicas=-1)),
    ("POST", REPLICA_SETS, replica_set("x", selector={"matchLabels": {"a": "b"}})),
    ("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}}),
    ("POST", CLASSES, {"metadata": {"name": "system-x"}, "value": 1}),
    ("POST", LEASES, {"metadata": {"name": "x"}, "spec": {"leaseDurationSeconds": 0}}),
    # Updates
    ("PUT", C, config_map("d")),
    ("PUT", C, {}),
    ("PUT", C, {"metadata": {"namespace": "kube-system"}}),
    ("PUT", C, changed(uid="other")),
    ("PUT", C, changed(resourceVersion="1")),
    ("PUT", C, changed(resourceVersion="abc")),
    ("PUT", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}),
    ("PATCH", C, {}),
    ("PATCH", C, b"{", MERGE),
    ("PATCH", C, 1, MERGE),
    ("PATCH", C, {"metadata": None}, MERGE),
    ("PATCH", C, {"metadata": None, "data": 1}, MERGE),
    ("PATCH", C, {"metadata": {"name": "d"}}, MERGE),
    ("PATCH", C, {"metadata": {"deletionGracePeriodSeconds": 0}}, MERGE),
    ("PATCH", C, {"metadata": {"labels": {"a b": "c"}, "finalizers": ["a b"]}}, MERGE),
    ("PATCH", C, {"metadata": {"uid": "zzz"}}, MERGE),
    ("PATCH", C, {"metadata": {"resourceVersion": "1"}}, MERGE),
    ("PATCH", C, {"metadata": {"uid": "zzz", "resourceVersion": "1"}}, MERGE),
    ("PATCH", C, {"metadata": {"uid": "zzz", "resourceVersion": "x"}}, MERGE),
    ("PATCH", C, [{}], STRATEGIC),
    ("PATCH", C, {}, JSON_PATCH),
    ("PATCH", C, [None], JSON_PATCH),
    ("PATCH", f"{C}?fieldValidation=Ignore", ["add"], JSON_PATCH),
    ("PATCH", C, [{"op": ["add"], "path": "/data/b", "value": "1"}], JSON_PATCH),
    ("PATCH", f"{C}?fieldValidation=Ignore", [{"op": ["add"], "path": "/data/b", "value": "1"}], JSON_PATCH),
    ("PATCH", C, [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}], JSON_PATCH),
    ("PATCH", C, [{"op": "remove", "path": "/metadata/name"}], JSON_PATCH),
    ("PATCH", C, [{"op": "replace", "path": "/metadata", "value": {"namespace": "kube-system"}}], JSON_PATCH),
    # Server-side apply
    ("PATCH", C, changed(), APPLY),
    ("PATCH", f"{C}?fieldManager=m&force=true", changed(), MERGE),
    ("PATCH", APPLY_C, changed(), "application/apply-patch+cbor"),
    ("PATCH", APPLY_C, b"null", APPLY),
    ("PATCH", APPLY_C, {"kind": "ConfigMap"}, APPLY),
    ("PATCH", APPLY_C, deployment(), APPLY),
    ("PATCH", APPLY_C, changed(managedFields=[]), APPLY),
    ("PATCH", APPLY_C, config_map("other"), APPLY),
    ("PATCH", APPLY_C, config_map(data={"a": 1}), APPLY),
    ("PATCH", APPLY_D, deployment(foo=1), APPLY),
    ("PATCH", APPLY_D, deployment(replicas="x"), APPLY),
    ("PATCH", APPLY_D, deployment([{"name": "c", "image": "i"}] * 2), APPLY),
    ("PATCH", APPLY_D.replace("?", "/status?"), deployment(), APPLY),
    ("PATCH", APPLY_T, crontab({"tags": ["a", "a"]}), APPLY),
    ("PATCH", APPLY_S, service({"name": "x"}), APPLY),
    # Deletions
    ("DELETE", f"{NAMESPACES}/default"),
    ("DELETE", NAMESPACES),
    ("DELETE", f"{C}?propagationPolicy="),
    ("DELETE", f"{C}?propagationPolicy=Bad&orphanDependents=true"),
    ("DELETE", C, {"propagationPolicy": "x"}),
    ("DELETE", C, {"propagationPolicy": "Orphan", "orphanDependents": True}),
    ("DELETE", C, {"kind": "Pod", "apiVersion": "v1"}),
    ("DELETE", C, {"preconditions": {"uid": "a"}}),
    ("DELETE", C, {"preconditions": {"resourceVersion": "1"}}),
)
"""Method, path, body and content type, to a server that has a ConfigMap ``c`` and a Lease ``l``."""


def _key(method: str, target: str, body: Any = None, content_type: str = JSON) -> str:
    sent = "" if body is None else body.decode() if isinstance(body, bytes) else json.dumps(body)
    return " ".join(filter(None, (method, target, content_type if content_type != JSON else "", sent)))


async def test_status_bodies(env: Env, golden: Golden) -> None:
    api = Api(env)
    running = asyncio.ensure_future(api.server.run())
    await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    await api.create(CONFIG_MAPS, config_map(data={"a": "1"}))
    await api.create(LEASES, {"metadata": {"name": "l"}})
    api.store.compact(api.store.revision)
    result = {}
    for request in REQUESTS:
        answer = await api.request(*request)
        body = {name: value for name, value in answer.body.items() if name not in ("kind", "apiVersion", "metadata")}
        assert (answer.body["kind"], answer.body["apiVersion"], answer.body["metadata"]) == ("Status", "v1", {})
        assert (answer.status, answer.headers["content-type"]) == (body["code"], "application/json")
        result[_key(*request)] = [json.loads(_UID.sub("(uid)", json.dumps(body)))]
    running.cancel()
    golden.check("errors", result)
