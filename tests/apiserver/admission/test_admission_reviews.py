"""AdmissionReviews: the request that webhooks receive for each kind of write, recorded from v1.36.2."""

from typing import Any

from tests.apiserver.admission.test_webhooks import MUTATING, VALIDATING, Hooks, allow, configuration, patch, webhook
from tests.apiserver.api import CONFIG_MAPS, PODS, Api, Object, pod
from tests.tables import cases

POD = f"{PODS}/p"
SCALE = "/apis/apps/v1/namespaces/default/deployments/d/scale"
ANYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
BINDING = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
DEPLOYMENT = {
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
EXEC = {"stdin": True, "container": "c", "command": ["ls", "-l"], "kind": "PodExecOptions", "apiVersion": "v1"}
SCALED = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 3}}
MERGE = "application/merge-patch+json"


def parts(request: Object) -> list[Any]:
    """The parts of a request that the tables compare."""
    kind, resource = request["kind"], request["resource"]["resource"]
    group = f"{kind['group']}/{kind['version']} {kind['kind']}"
    options = request["options"] and {
        name: value for name, value in request["options"].items() if name not in ("kind", "apiVersion")
    }
    subresource = f"/{request['subResource']}" if "subResource" in request else ""
    return [request["operation"], group, resource + subresource, request.get("name"), options]


async def review_of(api: Api, method: str, path: str, body: Any, content_type: str) -> list[Object]:
    await api.create(PODS, pod("p"))
    await api.create("/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)
    await api.create(CONFIG_MAPS, {"metadata": {"name": "m"}})
    hooks = Hooks(api, allow)
    await api.create(VALIDATING, configuration(webhook("v.example.com", rules=[ANYTHING])))
    await api.request(method, path, body, content_type=content_type)
    return [request for _name, request in hooks.requests]


@cases(
    "method, path, body, expected",
    {
        "create": ("POST", f"{CONFIG_MAPS}?fieldManager=f&fieldValidation=Strict", {"metadata": {"name": "c"}},
            ["CREATE", "/v1 ConfigMap", "configmaps", "c", {"fieldManager": "f", "fieldValidation": "Strict"}]),
        "dry run": ("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "c"}},
            ["CREATE", "/v1 ConfigMap", "configmaps", "c", {"dryRun": ["All"]}]),
        "patch": ("PATCH", f"{CONFIG_MAPS}/m?fieldManager=f", {"data": {"a": "b"}},
            ["UPDATE", "/v1 ConfigMap", "configmaps", "m", {"fieldManager": "f"}]),
        "delete": ("DELETE", f"{CONFIG_MAPS}/m?gracePeriodSeconds=3&propagationPolicy=Background", None,
            ["DELETE", "/v1 ConfigMap", "configmaps", "m",
             {"gracePeriodSeconds": 3, "propagationPolicy": "Background"}]),
        "delete with a body": ("DELETE", f"{CONFIG_MAPS}/m", {"orphanDependents": False},
            ["DELETE", "/v1 ConfigMap", "configmaps", "m", {"orphanDependents": False}]),
        "delete of a collection": ("DELETE", CONFIG_MAPS, {"gracePeriodSeconds": 0},
            ["DELETE", "/v1 ConfigMap", "configmaps", None, {"gracePeriodSeconds": 0}]),
        "binding": ("POST", f"{POD}/binding", BINDING, ["CREATE", "/v1 Binding", "pods/binding", "p", {}]),
        "binding of a missing pod": ("POST", f"{PODS}/x/binding", {**BINDING, "metadata": {"name": "x"}},
            ["CREATE", "/v1 Binding", "pods/binding", "x", {}]),
        "bindings": ("POST", "/api/v1/namespaces/default/bindings", BINDING,
            ["CREATE", "/v1 Binding", "bindings", "p", {}]),
        "eviction": ("POST", f"{POD}/eviction", EVICTION, ["CREATE", "policy/v1 Eviction", "pods/eviction", "p", {}]),
        "scale": ("PUT", SCALE, {"metadata": {"name": "d"}, "spec": {"replicas": 3}},
            ["UPDATE", "autoscaling/v1 Scale", "deployments/scale", "d", {}]),
        "exec": ("POST", f"{POD}/exec?command=ls&command=-l&stdin=1&tty=false&container=c", None,
            ["CONNECT", "/v1 PodExecOptions", "pods/exec", "p", None]),
        "attach": ("GET", f"{POD}/attach?stdout=true", None,
            ["CONNECT", "/v1 PodAttachOptions", "pods/attach", "p", None]),
        "port-forward": ("POST", f"{POD}/portforward?ports=80,81", None,
            ["CONNECT", "/v1 PodPortForwardOptions", "pods/portforward", "p", None]),
        "proxy": ("GET", "/api/v1/namespaces/default/services/s:80/proxy/a/b?c=d", None,
            ["CONNECT", "/v1 ServiceProxyOptions", "services/proxy", "s:80", None]),
    },
)  # fmt: skip
async def test_requests_of_reviews(api: Api, method: str, path: str, body: Any, expected: list[Any]) -> None:
    content_type = MERGE if method == "PATCH" else "application/json"
    assert [parts(request) for request in await review_of(api, method, path, body, content_type)] == [expected]


@cases(
    "method, path, body, expected",
    {
        "binding": ("POST", f"{POD}/binding", BINDING,
            {"kind": "Binding", "apiVersion": "v1", "target": BINDING["target"]}),
        "scale": ("PATCH", SCALE, {"spec": {"replicas": 3}}, SCALED),
        "exec": ("POST", f"{POD}/exec?command=ls&command=-l&stdin=1&tty=false&container=c", None, EXEC),
        "port-forward": ("POST", f"{POD}/portforward?ports=80,81", None,
            {"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 81]}),
        "proxy": ("GET", f"{POD}/proxy/a/b/?path=c", None,
            {"kind": "PodProxyOptions", "apiVersion": "v1", "path": "/a/b/"}),
        "proxy of the root": ("GET", f"{POD}/proxy", None, {"kind": "PodProxyOptions", "apiVersion": "v1"}),
    },
)  # fmt: skip
async def test_objects_of_subresources(api: Api, method: str, path: str, body: Any, expected: Object) -> None:
    (request,) = await review_of(api, method, path, body, MERGE if method == "PATCH" else "application/json")
    obj = request["object"]
    assert {name: value for name, value in obj.items() if name not in ("metadata", "status")} == expected
    old = request["oldObject"]
    assert (old and (old["kind"], old["spec"])) == (("Scale", {"replicas": 1}) if expected is SCALED else None)


async def test_denied_connections_and_bindings(api: Api) -> None:
    await api.create(PODS, pod("p"))
    Hooks(api, lambda _name, _request: {"allowed": False, "status": {"message": "no"}})
    await api.create(VALIDATING, configuration(webhook(rules=[{**ANYTHING, "resources": ["pods/*"]}])))
    denied = 'admission webhook "a.example.com" denied the request: no'
    assert (await api.post(f"{POD}/exec?command=ls", None)).message == denied
    assert (await api.post(f"{POD}/binding", BINDING)).message == denied
    assert "nodeName" not in (await api.get(POD)).body["spec"]


async def test_mutated_scales_bindings_and_connections(api: Api) -> None:
    await api.create("/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)
    await api.create(PODS, pod("p"))
    changes: dict[str, Object] = {
        "Scale": {"op": "replace", "path": "/spec/replicas", "value": 7},
        "Binding": {"op": "replace", "path": "/target/name", "value": "other"},
        "PodAttachOptions": {"op": "add", "path": "/container", "value": "none"},
    }
    Hooks(api, lambda _name, request: patch(changes[request["kind"]["kind"]]))
    await api.create(MUTATING, configuration(webhook(rules=[ANYTHING])))
    scaled = await api.patch(SCALE, {"spec": {"replicas": 3}})
    assert scaled.body["spec"] == {"replicas": 7}
    assert (await api.get(SCALE.removesuffix("/scale"))).body["spec"]["replicas"] == 7
    await api.create(f"{POD}/binding", BINDING)
    assert (await api.get(POD)).body["spec"]["nodeName"] == "other"
    assert (await api.post(f"{POD}/attach", None)).message == "container none is not valid for pod p"


@cases(
    "metadata, code, message",
    {
        "uid": ({"uid": "u"}, 422,
            'ConfigMap "m" is invalid: metadata.uid: Invalid value: "u": field is immutable'),
        "creation time": ({"creationTimestamp": "2001-01-01T00:00:00Z"}, 200, ""),
        "name": ({"name": "o"}, 422,
            'ConfigMap "o" is invalid: metadata.name: Invalid value: "o": field is immutable'),
        "namespace": ({"namespace": "o"}, 400,
            "the namespace of the provided object does not match the namespace sent on the request"),
        "resource version": ({"resourceVersion": "1"}, 409,
            'Operation cannot be fulfilled on configmaps "m": the object has been modified; please apply your changes '
            "to the latest version and try again"),
        "malformed resource version": ({"resourceVersion": "x"}, 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
    },
)  # fmt: skip
async def test_mutated_metadata(api: Api, metadata: Object, code: int, message: str) -> None:
    stored = (await api.create(CONFIG_MAPS, {"metadata": {"name": "m"}}))["metadata"]
    operations = [{"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in metadata.items()]
    Hooks(api, lambda _name, _request: patch(*operations))
    await api.create(MUTATING, configuration(webhook()))
    answer = await api.patch(f"{CONFIG_MAPS}/m", {"data": {"a": "b"}})
    assert (answer.status, answer.message) == (code, message)
    if code == 200:
        assert answer.meta["creationTimestamp"] == stored["creationTimestamp"]


async def test_mutating_webhooks_see_objects_before_system_fields_are_set(api: Api) -> None:
    hooks = Hooks(api, allow)
    await api.create(MUTATING, configuration(webhook()))
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    await api.put(f"{CONFIG_MAPS}/c", {"metadata": {"name": "c"}, "data": {"a": "b"}})
    for _name, request in hooks.requests:
        assert not {"uid", "creationTimestamp", "resourceVersion"} & request["object"]["metadata"].keys()


async def test_pending_deletions_are_not_reviewed_again(api: Api) -> None:
    await api.create(PODS, pod("p", nodeName="n"))
    hooks = Hooks(api, allow)
    await api.create(VALIDATING, configuration(webhook(rules=[{**ANYTHING, "resources": ["pods"]}])))
    await api.delete(POD)
    await api.delete(POD)
    assert len(hooks.requests) == 1
    await api.request("DELETE", f"{POD}?gracePeriodSeconds=1")
    assert len(hooks.requests) == 2


async def test_unset_structs_are_sent_and_are_no_change(api: Api) -> None:
    """Go encodes them: a patch may add a field of ``status``, but ``status: {}`` is not stored."""
    hooks = Hooks(api, lambda _name, _request: patch({"op": "test", "path": "/status", "value": {}}))
    webhooks = [webhook(f"{name}.example.com", rules=[ANYTHING], reinvocationPolicy="IfNeeded") for name in "ab"]
    await api.create(MUTATING, configuration(*webhooks))
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    created = await api.create(deployments, DEPLOYMENT)
    assert [request["object"]["status"] for _name, request in hooks.requests] == [{}, {}]
    await api.delete(f"{MUTATING}/w")
    assert (await api.create(deployments, {**DEPLOYMENT, "metadata": {"name": "e"}})).keys() == created.keys()


async def test_emptied_maps_are_omitted(api: Api) -> None:
    Hooks(api, lambda _name, _request: patch({"op": "remove", "path": "/data/a"}))
    await api.create(MUTATING, configuration(webhook()))
    assert "data" not in await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}})
