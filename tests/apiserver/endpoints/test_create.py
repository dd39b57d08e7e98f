"""create: metadata, names, namespaces, bodies (facts from kube-apiserver v1.36.2)."""

import random

import pytest
from tests.apiserver.api import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    Answer,
    Api,
    Object,
    config_map,
    pod,
    replica_set,
)

from pilothouse.env import Env, virtual


async def _create(api: Api, target: str, body: object, content_type: str = "application/json") -> Answer:
    return await api.ask("POST", target, body, content_type)


async def test_what_the_server_owns_is_set_by_the_server(api: Api) -> None:
    body = config_map(
        metadata={
            "uid": "mine",
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "deletionTimestamp": "2001-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 3,
            "selfLink": "x",
            "resourceVersion": "0",
            "managedFields": [{"manager": "m"}],
        }
    )
    answer = await _create(api, CONFIG_MAPS, body)
    assert answer.status == 201
    uid = answer.meta.pop("uid")
    assert len(uid) == 36
    assert answer.meta == {
        "name": "c",
        "namespace": "default",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("target", "body", "code", "reason", "message"),
    [
        pytest.param(
            CONFIG_MAPS,
            config_map(metadata={"namespace": "other"}),
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
            id="the body's namespace must be the URL's",
        ),
        pytest.param(
            CONFIG_MAPS,
            {"metadata": {}},
            422,
            "Invalid",
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
            id="a name is required",
        ),
        pytest.param(
            CONFIG_MAPS,
            config_map(metadata={"resourceVersion": "5"}),
            500,
            None,
            "resourceVersion should not be set on objects to be created",
            id="a resource version is refused",
        ),
        pytest.param(
            "/api/v1/namespaces/nowhere/configmaps",
            config_map(),
            404,
            "NotFound",
            'namespaces "nowhere" not found',
            id="the namespace must exist",
        ),
        pytest.param(
            CONFIG_MAPS,
            config_map(metadata={"finalizers": ["foo"]}),
            422,
            "Invalid",
            'ConfigMap "c" is invalid: metadata.finalizers[0]: Invalid value: "foo": name is neither a standard '
            "finalizer name nor is it fully qualified",
            id="finalizers are qualified names",
        ),
        pytest.param(
            CONFIG_MAPS,
            config_map(metadata={"finalizers": ["orphan", "foregroundDeletion"]}),
            422,
            "Invalid",
            'ConfigMap "c" is invalid: metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer '
            "orphan and foregroundDeletion cannot be both set",
            id="the two policies exclude each other",
        ),
        pytest.param(
            CONFIG_MAPS,
            config_map(metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
            422,
            "Invalid",
            'ConfigMap "c" is invalid: metadata.ownerReferences.uid: Invalid value: "": must not be empty',
            id="an owner needs a uid",
        ),
        pytest.param(
            CONFIG_MAPS,
            pod(),
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown '
            "conversion",
            id="another kind is refused",
        ),
        pytest.param(
            CONFIG_MAPS,
            {"apiVersion": "foo/v1", "kind": "Foo", "metadata": {"name": "c"}},
            400,
            "BadRequest",
            'Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "foo/v1" in '
            'scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"',
            id="an unknown kind is refused",
        ),
        pytest.param(
            PODS,
            {"metadata": {"name": "p"}, "spec": {}},
            422,
            "Invalid",
            'Pod "p" is invalid: spec.containers: Required value',
            id="a pod needs containers",
        ),
        pytest.param(
            PODS,
            pod("p", containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "x"}}}]),
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="a quantity must be one",
        ),
        pytest.param(
            PODS,
            pod(
                "p",
                containers=[
                    {"name": "c", "image": "x", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "100m"}}}
                ],
            ),
            422,
            "Invalid",
            'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "200m": must be less than or '
            "equal to cpu limit of 100m",
            id="requests stay below limits",
        ),
        pytest.param(
            REPLICA_SETS,
            {
                "metadata": {"name": "r"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"c": "d"}},
                        "spec": {"containers": [{"name": "c", "image": "x"}]},
                    },
                },
            },
            422,
            "Invalid",
            'ReplicaSet.apps "r" is invalid: spec.template.metadata.labels: Invalid value: {"c":"d"}: `selector` '
            "does not "
            "match template `labels`",
            id="a selector must match its template",
        ),
        pytest.param(
            NAMESPACES,
            {"metadata": {"name": "A"}},
            422,
            "Invalid",
            'Namespace "A" is invalid: metadata.name: Invalid value: "A": a lowercase RFC 1123 label must consist of '
            "lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
            "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            id="namespaces are named by labels",
        ),
        pytest.param("/api/v1/pods", pod(), 405, "MethodNotAllowed", None, id="pods are made in a namespace"),
        pytest.param("/api/v1/nonsense", {}, 404, "NotFound", None, id="an unknown resource is not found"),
    ],
)
async def test_refusals(
    api: Api, target: str, body: Object, code: int, reason: str | None, message: str | None
) -> None:
    answer = await _create(api, target, body)
    assert (answer.status, answer.body.get("reason")) == (code, reason)
    assert answer.body["code"] == code
    if message is not None:
        assert answer.message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            b"",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind",
            id="empty",
        ),
        pytest.param(
            b"{", "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind", id="cut"
        ),
    ],
)
async def test_a_body_that_is_no_object_is_refused(api: Api, body: bytes, message: str) -> None:
    answer = await _create(api, CONFIG_MAPS, body)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.message.startswith(message)


async def test_a_body_over_three_mebibytes_is_refused(api: Api) -> None:
    answer = await _create(api, CONFIG_MAPS, config_map(data={"a": "x" * (3 * 1024 * 1024)}))
    assert (answer.status, answer.message) == (413, "Request entity too large: limit is 3145728")


async def test_yaml_is_taken(api: Api) -> None:
    answer = await _create(api, CONFIG_MAPS, b"metadata: {name: z}\ndata: {a: '1'}\n", "application/yaml")
    assert (answer.status, answer.body["data"]) == (201, {"a": "1"})


async def test_an_unknown_media_type_is_415(api: Api) -> None:
    answer = await _create(api, CONFIG_MAPS, b"a=b", "application/x-www-form-urlencoded")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


async def test_a_name_is_taken_once(api: Api) -> None:
    await api.made(PODS, pod("x"))
    answer = await api.post(PODS, pod("x"))
    assert answer.status == 409
    assert answer.body["reason"] == "AlreadyExists"
    assert answer.message == 'pods "x" already exists'
    assert answer.body["details"] == {"name": "x", "kind": "pods"}


async def test_generated_names_avoid_those_that_are_taken(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes = iter(["aaaaa", "aaaaa", "aaaaa", "bbbbb"])
    monkeypatch.setattr(type(api.env), "name_suffix", lambda _env: next(suffixes))
    made = [await api.made(CONFIG_MAPS, {"metadata": {"generateName": "c-"}}) for _ in range(2)]
    assert [obj["metadata"]["name"] for obj in made] == ["c-aaaaa", "c-bbbbb"]


async def test_generating_names_ends_after_eight_attempts(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(api.env), "name_suffix", lambda _env: "aaaaa")
    await api.made(CONFIG_MAPS, {"metadata": {"generateName": "c-"}})
    answer = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "c-"}})
    assert answer.status == 409
    assert answer.message.endswith("the server was not able to generate a unique name for the object")
    assert answer.headers["retry-after"] == "1"


async def test_a_name_with_a_prefix_that_is_taken_is_one_that_could_not_be_generated(api: Api) -> None:

    why = 'configmaps "c" already exists, the server was not able to generate a unique name for the object'
    body = {"metadata": {"name": "c", "generateName": "c-", "finalizers": ["example.com/hold"]}}
    await api.made(CONFIG_MAPS, body)
    answers = [await api.post(CONFIG_MAPS, body)]
    await api.delete(CONFIG_MAPS + "/c")
    assert [answer.message for answer in (*answers, await api.post(CONFIG_MAPS, body))] == [
        why,
        f"object is being deleted: {why}",
    ]


async def test_a_long_prefix_is_cut_for_the_suffix(api: Api) -> None:
    answer = await _create(api, CONFIG_MAPS, {"metadata": {"generateName": "a" * 70}})
    assert len(answer.meta["name"]) == 63


async def test_repeated_owners_are_dropped_with_a_warning(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}
    answer = await _create(api, CONFIG_MAPS, config_map(metadata={"ownerReferences": [owner, owner]}))
    assert answer.meta["ownerReferences"] == [owner]
    assert "duplicate UID(s) observed: u1" in answer.headers["warning"]


async def test_dry_run_stores_nothing(api: Api) -> None:
    made = await api.post(CONFIG_MAPS + "?dryRun=All", config_map())
    found = await api.get(CONFIG_MAPS + "/c")
    assert made.status == 201
    assert "uid" in made.meta and "resourceVersion" not in made.meta
    assert found.status == 404


@pytest.mark.parametrize(
    ("mode", "code", "warning"),
    [
        pytest.param("", 201, '299 - "unknown field \\"spec.foo\\""', id="by default a warning"),
        pytest.param("?fieldValidation=Warn", 201, '299 - "unknown field \\"spec.foo\\""', id="a warning when asked"),
        pytest.param("?fieldValidation=Ignore", 201, None, id="dropped in silence"),
        pytest.param("?fieldValidation=Strict", 400, None, id="an error"),
        pytest.param("?fieldValidation=Loud", 422, None, id="another mode is no mode"),
    ],
)
async def test_unknown_fields(api: Api, mode: str, code: int, warning: str | None) -> None:
    body = pod()
    body["spec"]["foo"] = 1
    answer = await _create(api, PODS + mode, body)
    assert answer.status == code
    assert answer.headers.get("warning") == warning
    if mode.endswith("Strict"):
        assert (
            answer.message
            == 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"'
        )


def test_names_are_drawn_from_the_environment() -> None:
    """The same seed tells the same story."""

    async def main(env: Env) -> str:
        return str((await Api(env).made(CONFIG_MAPS, {"metadata": {"generateName": "c-"}}))["metadata"]["name"])

    random.seed()
    assert virtual.run(main) == virtual.run(main)


async def test_an_image_of_a_node_without_names_has_null(api: Api) -> None:
    """The list has no omitempty (k8s.io/api v0.36, ContainerImage)."""
    images = [{"sizeBytes": 1}, {"names": [], "sizeBytes": 2}, {"names": ["a"]}]
    assert (await api.made("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"images": images}}))["status"][
        "images"
    ] == [
        {"names": None, "sizeBytes": 1},
        {"names": None, "sizeBytes": 2},
        {"names": ["a"]},
    ]


@pytest.mark.parametrize(
    ("name", "amount", "why"),
    [
        pytest.param("pods", "-1", "must be greater than or equal to 0", id="less than none"),
        pytest.param("pods", "500m", "must be an integer", id="half a pod"),
        pytest.param("example.com/gpu", "1500m", "must be an integer", id="half a device"),
        pytest.param("cpu", "500m", "", id="half a processor"),
    ],
)
async def test_what_a_node_has_is_counted_from_nothing_up(api: Api, name: str, amount: str, why: str) -> None:
    """After upstream's ``ValidateNodeResources`` (v1.36), when it is made and when its status is written."""
    status = {"status": {"capacity": {name: amount}}}
    first = await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, **status})
    await api.made("/api/v1/nodes", {"metadata": {"name": "later"}})
    for answer, code in zip((first, await api.patch("/api/v1/nodes/later/status", status)), (201, 200), strict=True):
        if why:
            assert answer.status == 422
            assert f'status.capacity.{name}: Invalid value: "{amount}": {why}' in answer.message
        else:
            assert answer.status == code, answer.text


async def test_amounts_of_resources_are_in_thousandths(api: Api) -> None:
    """``SetDefaults_ResourceList`` rounds them up, of pods, nodes, volumes and quotas alike (v1.36)."""
    asking = pod()
    asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "0.0001"}}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1000u"}}}
    made = await api.made(PODS, asking)
    node = await api.made("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1500u"}}})
    made_quota = await api.made("/api/v1/namespaces/default/resourcequotas", quota)
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1m"}}
    assert node["status"]["capacity"] == {"cpu": "2m"}
    assert made_quota["spec"]["hard"] == {"requests.cpu": "1m"}


async def test_a_claim_template_keeps_what_it_says_of_its_status(api: Api) -> None:
    status = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}, "status": status}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[index]
    spec = {**replica_set()["spec"], "serviceName": "s", "volumeClaimTemplates": [claim]}
    kept = (await api.made("/apis/apps/v1/namespaces/default/statefulsets", {"metadata": {"name": "w"}, "spec": spec}))[
        "spec"
    ]["volumeClaimTemplates"][0]["status"]
    assert kept == {"phase": "Pending", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}


async def test_a_certificate_request_may_have_any_name(api: Api) -> None:
    """Upstream's ``ValidateCertificateRequestName`` finds nothing wrong with any."""
    target = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    answer = await api.post(target, {"metadata": {"name": "Jane_" + "x" * 300}, "spec": {}})
    assert answer.status == 422
    assert "metadata.name" not in answer.message


@pytest.mark.parametrize(
    ("term", "why"),
    [
        pytest.param(
            {"scopeName": "b", "operator": "Exists"}, 'scopeName: Invalid value: "b": unsupported scope', id="no scope"
        ),
        pytest.param(
            {"scopeName": "BestEffort", "operator": "In", "values": ["a"]},
            "must be 'Exists' when scope is any of",
            id="in",
        ),
        pytest.param(
            {"scopeName": "PriorityClass", "operator": "In"},
            "values: Required value: must be at least one",
            id="no value",
        ),
        pytest.param(
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]},
            "must be no value when",
            id="a value too many",
        ),
        pytest.param(
            {"scopeName": "PriorityClass", "operator": "Is"}, "not a valid selector operator", id="no operator"
        ),
        pytest.param({"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}, "", id="as it should be"),
    ],
)
async def test_what_a_quota_selects(api: Api, term: Object, why: str) -> None:
    """After upstream's ``validateScopedResourceSelectorRequirement`` (v1.36)."""
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [term]}}
    answer = await api.post("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "q"}, "spec": spec})
    assert answer.status == (422 if why else 201), answer.text
    assert why in answer.message if why else True


_GPU, _PAGES = "example.com/gpu", "hugepages-2Mi"


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        pytest.param({"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}, "", id="as much as may be"),
        pytest.param(
            {"requests": {"cpus": "1"}},
            'requests[cpus]: Invalid value: "cpus": must be a standard resource type or fully qualified',
            id="no such resource",
        ),
        pytest.param(
            {"limits": {"pods": "1"}},
            'limits[pods]: Invalid value: "pods": must be a standard resource for containers',
            id="no resource of containers",
        ),
        pytest.param(
            {"limits": {"requests.example.com/gpu": "1"}},
            "doesn't follow extended resource name standard",
            id="a name that quotas need",
        ),
        pytest.param(
            {"requests": {"memory": "2"}, "limits": {"memory": "1"}},
            'resources.requests: Invalid value: "2": must be less than or equal to memory limit of 1',
            id="more than the limit",
        ),
        pytest.param({"requests": {_GPU: "1"}, "limits": {_GPU: "1"}}, "", id="a device"),
        pytest.param(
            {"requests": {_GPU: "1"}},
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
            id="a device without a limit",
        ),
        pytest.param(
            {"requests": {_GPU: "1"}, "limits": {_GPU: "2"}},
            f'resources.requests: Invalid value: "1": must be equal to {_GPU} limit of 2',
            id="fewer devices than the limit",
        ),
        pytest.param({"limits": {_GPU: "1500m"}}, "must be an integer", id="half a device"),
        pytest.param({"limits": {_PAGES: "2Mi"}}, "HugePages require cpu or memory", id="pages alone"),
        pytest.param({"limits": {_PAGES: "4Mi", "cpu": "1"}}, "", id="pages and a processor"),
        pytest.param(
            {"limits": {_PAGES: "3Mi", "cpu": "1"}},
            f"3Mi is not positive integer multiple of {_PAGES}",
            id="one page and a half",
        ),
        pytest.param({"limits": {"cpu": "-1"}}, "must be greater than or equal to 0", id="less than nothing"),
    ],
)
async def test_what_a_container_asks_for(api: Api, resources: Object, said: str) -> None:
    """After upstream's ``TestValidateResourceRequirements`` and ``ValidateContainerResourceRequirements`` (v1.36)."""
    asking = pod()
    asking["spec"]["containers"][0]["resources"] = resources
    answer = await api.post(PODS, asking)
    assert answer.status == (422 if said else 201), answer.text
    assert said == "" or said in answer.message


@pytest.mark.parametrize(
    ("mounted", "code"), [pytest.param("data", 201, id="its claim"), pytest.param("dat", 422, id="nothing")]
)
async def test_the_pods_of_a_stateful_set_mount_its_claims(api: Api, mounted: str, code: int) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {**replica_set()["spec"], "serviceName": "s"}
    spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    spec["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": mounted, "mountPath": "/data"}]
    assert (
        await api.post("/apis/apps/v1/namespaces/default/statefulsets", {"metadata": {"name": "w"}, "spec": spec})
    ).status == code
