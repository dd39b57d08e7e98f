"""PodGroups and Workloads, served with a feature gate, and the scheduling group of pods.

Rows mirror ``pkg/registry/scheduling/{podgroup,workload}/declarative_validation_test.go`` and the tests of the plugins
``plugin/pkg/admission/scheduling/podgroupprotection`` and ``plugin/pkg/admission/podgroup`` of v1.36.
"""

import json
from typing import Any

import pytest
from tests.apiserver.api import PODS, REPLICA_SETS, Api, Object
from tests.tables import cases

from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.apiserver.admission.names import DEFAULT
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.apiserver.serializers import protobuf
from pilothouse.env import Env

GATE = "GenericWorkload"
GATE_ON = ServerOptions(gates=(GATE,))
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads"
FINALIZER = "scheduling.k8s.io/podgroup-protection"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
LABEL = "must not contain dots"
GANG = {"gang": {"minCount": 2}}


CONDITION: Object = {
    "type": "PodGroupScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def without(*names: str) -> ServerOptions:
    """A server with the gate and without these plugins."""
    plugins = tuple(name for name in DEFAULT if name not in {"ServiceAccount", *names})
    return ServerOptions(gates=(GATE,), admission_plugins=plugins)


def group(name: str = "g", *, meta: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": name, **(meta or {})}, "spec": {"schedulingPolicy": {"basic": {}}, **spec}}


def template_of(workload: Any = "w", template: Any = "t") -> Object:
    return {"workload": {"workloadName": workload, "podGroupTemplateName": template}}


def template(name: Any = "t", **fields: Any) -> Object:
    return {"name": name, "schedulingPolicy": GANG, **fields}


def workload(*templates: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": list(templates), **spec}}


def pod(group: Any = "g", name: str = "p") -> Object:
    spec = {"containers": [{"name": "main", "image": "pause"}], "schedulingGroup": {"podGroupName": group}}
    return {"metadata": {"name": name}, "spec": spec}


async def test_not_served_without_the_gate(api: Api) -> None:
    assert [(await api.get(path)).status for path in (GROUPS, WORKLOADS)] == [404, 404]
    assert "schedulingGroup" not in (await api.create(PODS, pod()))["spec"]
    body = {"metadata": {"name": "r"}, "spec": WORKLOAD_SPEC}
    assert "schedulingGroup" not in (await api.create(REPLICA_SETS, body))["spec"]["template"]["spec"]
    controller = {"metadata": {"name": "r"}, "spec": {"selector": {"a": "b"}, "template": TEMPLATE}}
    created = await api.create("/api/v1/namespaces/default/replicationcontrollers", controller)
    assert "schedulingGroup" not in created["spec"]["template"]["spec"]


async def test_served_with_the_gate(env: Env) -> None:
    api = Api(env, GATE_ON)
    served = (await api.get("/apis/scheduling.k8s.io/v1alpha2")).body["resources"]
    assert [(resource["name"], resource["kind"], resource["namespaced"]) for resource in served] == [
        ("podgroups", "PodGroup", True),
        ("podgroups/status", "PodGroup", True),
        ("workloads", "Workload", True),
    ]
    versions = (await api.get("/apis/scheduling.k8s.io")).body
    assert [resource["version"] for resource in versions["versions"]] == ["v1", "v1alpha2"]
    assert versions["preferredVersion"]["version"] == "v1"
    created = await api.create(GROUPS, {**group(), "status": {"conditions": [CONDITION]}})
    assert created["spec"] == {"podGroupTemplateRef": None, "schedulingPolicy": {"basic": {}}}
    assert created["status"] == {}
    assert "generation" not in created["metadata"]
    assert created == (await api.get(f"{GROUPS}/g")).body
    created = await api.create(WORKLOADS, workload(template()))
    assert created["spec"] == {"podGroupTemplates": [{**template(), "schedulingConstraints": None}]}
    assert "status" not in created
    assert (await api.delete(f"{WORKLOADS}/w")).body["kind"] == "Status"


TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
WORKLOAD_SPEC = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
JOB_SPEC = {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(PODS, {"spec": pod()["spec"]}, id="pod"),
        pytest.param("/api/v1/namespaces/default/podtemplates", {"template": TEMPLATE}, id="template"),
        pytest.param(
            "/api/v1/namespaces/default/replicationcontrollers",
            {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}},
            id="ReplicationController",
        ),
        *(
            pytest.param(f"/apis/apps/v1/namespaces/default/{resource}", {"spec": WORKLOAD_SPEC}, id=resource)
            for resource in ("daemonsets", "deployments", "replicasets", "statefulsets")
        ),
        pytest.param("/apis/batch/v1/namespaces/default/jobs", {"spec": JOB_SPEC}, id="Job"),
        pytest.param(
            "/apis/batch/v1/namespaces/default/cronjobs",
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB_SPEC}}},
            id="CronJob",
        ),
    ],
)
async def test_stored_fields_are_kept_without_the_gate(env: Env, path: str, body: Object) -> None:
    """For every kind with pods or templates; the server is restarted without the gate, and then with it."""
    api = Api(env, GATE_ON)
    created = await api.create(path, {"metadata": {"name": "x"}, **body})
    assert '"schedulingGroup": {"podGroupName": "g"}' in json.dumps(created)
    for options in (ServerOptions(), GATE_ON):
        api.transport = ApiServer(api.env, api.store, options=options).transport("admin", ("system:masters",))
        changed = await api.patch(f"{path}/x", {"metadata": {"labels": {"seen": str(bool(options.gates)).lower()}}})
        assert changed.status == 200, changed.text
        assert '"schedulingGroup":{"podGroupName":"g"}' in changed.text
    await api.delete(f"{path}/x", {"propagationPolicy": "Background"})


async def test_pods_and_templates_have_a_scheduling_group_with_the_gate(env: Env) -> None:
    api = Api(env, GATE_ON)
    created = await api.create(PODS, pod())
    assert created["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    changed = await api.patch(f"{PODS}/p", {"spec": {"schedulingGroup": {"podGroupName": "other"}}})
    assert changed.status == 422
    assert "pod updates may not change fields other than" in changed.message
    body = {"metadata": {"name": "r"}, "spec": WORKLOAD_SPEC}
    spec = (await api.create(REPLICA_SETS, body))["spec"]["template"]["spec"]
    assert spec["schedulingGroup"] == {"podGroupName": "g"}
    change = {"spec": {"template": {"spec": {"schedulingGroup": {"podGroupName": "a/b"}}}}}
    rejected = await api.patch(f"{REPLICA_SETS}/r", change)
    assert 'spec.template.spec.schedulingGroup.podGroupName: Invalid value: "a/b": ' + SUBDOMAIN in rejected.message


@cases(
    "scheduling_group, message",
    {
        "missing name": ({}, "podGroupName: Invalid value: null: must specify one of: `podGroupName`"),
        "an empty name": ({"podGroupName": ""}, f'podGroupName: Invalid value: "": {SUBDOMAIN}'),
        "invalid name": ({"podGroupName": "a_b"}, f'podGroupName: Invalid value: "a_b": {SUBDOMAIN}'),
    },
)
async def test_rejected_scheduling_groups(env: Env, scheduling_group: Object, message: str) -> None:
    api = Api(env, GATE_ON)
    body = pod()
    body["spec"]["schedulingGroup"] = scheduling_group
    rejected = await api.post(PODS, body)
    assert rejected.status == 422
    assert f"spec.schedulingGroup.{message}" in rejected.message


REF, POLICY = "spec.podGroupTemplateRef", "spec.schedulingPolicy"


@cases(
    "spec, message",
    {
        "valid": ({}, ""),
        "gang policy": ({"schedulingPolicy": GANG}, ""),
        "template reference without workload": (
            {"podGroupTemplateRef": {}},
            f'{REF}: Invalid value: "": must specify one of: `workload`',
        ),
        "empty workload name": (
            {"podGroupTemplateRef": template_of("")},
            f"{REF}.workload.workloadName: Required value",
        ),
        "invalid workload name": (
            {"podGroupTemplateRef": template_of("work/load")},
            f'{REF}.workload.workloadName: Invalid value: "work/load": {SUBDOMAIN}',
        ),
        "empty template name": (
            {"podGroupTemplateRef": template_of(template="")},
            f"{REF}.workload.podGroupTemplateName: Required value",
        ),
        "invalid template name": (
            {"podGroupTemplateRef": template_of(template="a.b")},
            f'{REF}.workload.podGroupTemplateName: Invalid value: "a.b": {LABEL}',
        ),
        "no policy": ({"schedulingPolicy": {}}, f'{POLICY}: Invalid value: "": must specify one of: `basic`, `gang`'),
        "two policies": (
            {"schedulingPolicy": {"basic": {}, **GANG}},
            f'{POLICY}: Invalid value: "{{basic, gang}}": must specify exactly one of: `basic`, `gang`',
        ),
        "gang without minCount": ({"schedulingPolicy": {"gang": {}}}, f"{POLICY}.gang.minCount: Required value"),
        "negative minCount": (
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            f"{POLICY}.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
        ),
    },
)
async def test_pod_group_validation(env: Env, spec: Object, message: str) -> None:
    api = Api(env, GATE_ON)
    answer = await api.post(GROUPS, group(**spec))
    assert answer.status == (422 if message else 201), answer.text
    assert message in answer.message


GATED: Object = {
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
    "disruptionMode": "PodGroup",
    "priorityClassName": "high",
    "priority": 5,
}


async def test_fields_of_other_gates_are_dropped(env: Env) -> None:
    api = Api(env, GATE_ON)
    created = await api.create(GROUPS, group(**GATED))
    assert created["spec"] == {"podGroupTemplateRef": None, "schedulingPolicy": {"basic": {}}}
    patched = await api.patch(f"{GROUPS}/g", {"spec": GATED})
    assert patched.body["spec"] == created["spec"]
    created = await api.create(WORKLOADS, workload(template(**GATED)))
    assert created["spec"] == {"podGroupTemplates": [{**template(), "schedulingConstraints": None}]}


@cases(
    "changes, field",
    {
        "removed template reference": ({"podGroupTemplateRef": None}, REF),
        "another workload": ({"podGroupTemplateRef": {"workload": {"workloadName": "v"}}}, REF),
        "another template": ({"podGroupTemplateRef": {"workload": {"podGroupTemplateName": "v"}}}, REF),
        "no policy": ({"schedulingPolicy": {"basic": None}}, POLICY),
        "two policies": ({"schedulingPolicy": GANG}, POLICY),
        "the other policy": ({"schedulingPolicy": {"basic": None, **GANG}}, POLICY),
    },
)
async def test_pod_group_spec_is_immutable(env: Env, changes: Object, field: str) -> None:
    api = Api(env, without("PodGroupWorkloadExists"))
    await api.create(GROUPS, group(podGroupTemplateRef=template_of()))
    answer = await api.patch(f"{GROUPS}/g", {"spec": changes})
    assert answer.status == 422
    assert answer.message.endswith(f"is invalid: {field}: Invalid value: null: field is immutable")
    labeled = await api.patch(f"{GROUPS}/g", {"metadata": {"labels": {"a": "b"}}, "status": {"conditions": []}})
    assert labeled.meta["labels"] == {"a": "b"}
    assert labeled.body["status"] == {}


async def test_pod_group_status(env: Env) -> None:
    api = Api(env, GATE_ON)
    await api.create(GROUPS, group())
    status = {"conditions": [CONDITION], "resourceClaimStatuses": [{"name": "a"}]}
    body = {"status": status, "spec": {"schedulingPolicy": GANG}, "metadata": {"labels": {"a": "b"}}}
    answer = await api.patch(f"{GROUPS}/g/status", body)
    assert answer.status == 200
    assert answer.body["status"] == {"conditions": [CONDITION]}
    assert answer.body["spec"]["schedulingPolicy"] == {"basic": {}}
    assert "labels" not in answer.meta
    rejected = await api.patch(f"{GROUPS}/g/status", {"status": {"conditions": [{**CONDITION, "status": "Yes"}]}})
    assert 'status.conditions[0].status: Unsupported value: "Yes"' in rejected.message


CONTROLLER, TEMPLATES = "spec.controllerRef", "spec.podGroupTemplates"
JOB = {"apiGroup": "batch", "kind": "Job", "name": "j"}


@cases(
    "body, message",
    {
        "valid": (workload(template(), template("u")), ""),
        "controller reference": (workload(template(), controllerRef=JOB), ""),
        "controller of the core group": (workload(template(), controllerRef={**JOB, "apiGroup": ""}), ""),
        "invalid group of the controller": (
            workload(template(), controllerRef={**JOB, "apiGroup": "a_b"}),
            f'{CONTROLLER}.apiGroup: Invalid value: "a_b": {SUBDOMAIN}',
        ),
        "controller without kind": (
            workload(template(), controllerRef={**JOB, "kind": ""}),
            f"{CONTROLLER}.kind: Required value",
        ),
        "invalid kind of the controller": (
            workload(template(), controllerRef={**JOB, "kind": "a/b"}),
            f"{CONTROLLER}.kind: Invalid value: \"a/b\": may not contain '/'",
        ),
        "controller without name": (
            workload(template(), controllerRef={**JOB, "name": ""}),
            f"{CONTROLLER}.name: Required value",
        ),
        "invalid name of the controller": (
            workload(template(), controllerRef={**JOB, "name": "a%b"}),
            f"{CONTROLLER}.name: Invalid value: \"a%b\": may not contain '%'",
        ),
        "no templates": (workload(), f"{TEMPLATES}: Required value"),
        "too many templates": (
            workload(*(template(f"t{number}") for number in range(9))),
            f"{TEMPLATES}: Too many: 9: must have at most 8 items",
        ),
        "duplicate templates": (
            workload(template(), template()),
            f'{TEMPLATES}[1]: Duplicate value: {{"name":"t","schedulingPolicy":{{"gang":{{"minCount":2}}}},'
            '"schedulingConstraints":null}',
        ),
        "a template without a name": (workload(template("")), f"{TEMPLATES}[0].name: Required value"),
        "invalid name of a template": (
            workload(template("a.b")),
            f'{TEMPLATES}[0].name: Invalid value: "a.b": {LABEL}',
        ),
        "template without policy": (
            workload(template(schedulingPolicy={})),
            f'{TEMPLATES}[0].schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
        ),
        "gang without minCount in a template": (
            workload(template(schedulingPolicy={"gang": {}})),
            f"{TEMPLATES}[0].schedulingPolicy.gang.minCount: Required value",
        ),
    },
)
async def test_workload_validation(env: Env, body: Object, message: str) -> None:
    api = Api(env, GATE_ON)
    answer = await api.post(WORKLOADS, body)
    assert answer.status == (422 if message else 201), answer.text
    assert message in answer.message


@cases(
    "body, expected",
    {
        "another template": (workload(template("other")), f"{TEMPLATES}: Invalid value: null: field is immutable"),
        "another controller": (
            workload(template(), controllerRef=JOB),
            f"{CONTROLLER}: Invalid value: null: field is immutable",
        ),
        "no templates": (
            workload(),
            f"[{TEMPLATES}: Invalid value: null: field is immutable, {TEMPLATES}: Required value]",
        ),
    },
)
async def test_workload_spec_is_immutable(env: Env, body: Object, expected: str) -> None:
    api = Api(env, GATE_ON)
    await api.create(WORKLOADS, workload(template()))
    answer = await api.put(f"{WORKLOADS}/w", body)
    assert answer.status == 422
    assert answer.message.endswith(f"is invalid: {expected}")


@cases(
    "finalizers, expected",
    {
        "without finalizers": ([], [FINALIZER]),
        "with the finalizer": ([FINALIZER], [FINALIZER]),
        "with other finalizers": (["example.com/mine"], ["example.com/mine", FINALIZER]),
    },
)
async def test_admission_adds_the_protection_finalizer(env: Env, finalizers: list[str], expected: list[str]) -> None:
    api = Api(env, GATE_ON)
    created = await api.create(GROUPS, group(meta={"finalizers": finalizers}))
    assert created["metadata"]["finalizers"] == expected
    patched = await api.patch(f"{GROUPS}/g", {"metadata": {"finalizers": None}})
    assert "finalizers" not in patched.meta, "added on create only"
    assert "finalizers" not in (await api.create(WORKLOADS, workload(template())))["metadata"]


async def test_no_protection_finalizer_without_the_plugin(env: Env) -> None:
    api = Api(env, without("PodGroupProtection"))
    assert "finalizers" not in (await api.create(GROUPS, group()))["metadata"]


@cases(
    "reference, message",
    {
        "without template reference": (None, ""),
        "existing workload and template": (template_of(), ""),
        "missing workload": (template_of("missing"), 'Workload "missing" not found'),
        "terminating workload": (template_of("going"), 'Workload "going" is being deleted'),
        "missing template": (
            template_of(template="missing"),
            'PodGroupTemplate "missing" not found in Workload "w"',
        ),
    },
)
async def test_admission_requires_the_workload(env: Env, reference: Object | None, message: str) -> None:
    api = Api(env, GATE_ON)
    await api.create(WORKLOADS, workload(template("s"), template("t")))
    terminating = workload(template())
    terminating["metadata"] = {"name": "going", "finalizers": ["example.com/mine"]}
    await api.create(WORKLOADS, terminating)
    await api.delete(f"{WORKLOADS}/going")
    answer = await api.post(GROUPS, group(podGroupTemplateRef=reference))
    if message:
        assert answer.status == 403
        assert answer.message == f'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: {message}'
    else:
        assert answer.status == 201, answer.text
        await api.delete(f"{WORKLOADS}/w")
        labeled = await api.patch(f"{GROUPS}/g", {"metadata": {"labels": {"a": "b"}}})
        assert labeled.status == 200, "required on create only"


def test_bootstrap_roles() -> None:
    def rules(role: str, *gates: str) -> list[tuple[str, str]]:
        cluster_roles = {
            obj["metadata"]["name"]: obj for kind, obj in bootstrap_objects(gates) if kind == "clusterroles"
        }
        return [
            (",".join(rule["verbs"]), ",".join(rule["resources"]))
            for rule in cluster_roles.get(role, {}).get("rules", ())
            if rule.get("apiGroups") == ["scheduling.k8s.io"]
        ]

    controller = "system:controller:podgroup-protection-controller"
    assert rules(controller, GATE) == [("get,list,update,watch", "podgroups")]
    assert rules("system:aggregate-to-view", GATE) == [("get,list,watch", "podgroups,podgroups/status,workloads")]
    assert rules("system:aggregate-to-edit", GATE) == [
        ("create,delete,deletecollection,patch,update", "podgroups,workloads")
    ]
    assert rules("system:kube-scheduler", GATE) == [
        ("get,list,watch", "podgroups"),
        ("patch,update", "podgroups/status"),
    ]
    for role in (controller, "system:aggregate-to-view", "system:aggregate-to-edit", "system:kube-scheduler"):
        assert rules(role) == []


@cases(
    "spec, conditions, cells",
    {
        "new": ({}, [], ["Basic", "<none>", "Pending"]),
        "scheduled": (
            {"schedulingPolicy": GANG, "podGroupTemplateRef": template_of()},
            [CONDITION],
            ["Gang", "w", "Scheduled"],
        ),
        "unschedulable": ({}, [{**CONDITION, "status": "False"}], ["Basic", "<none>", "Unschedulable"]),
        "disruption target": (
            {},
            [CONDITION, {**CONDITION, "type": "DisruptionTarget", "reason": "PreemptionByScheduler"}],
            ["Basic", "<none>", "PreemptionByScheduler"],
        ),
    },
)
async def test_table_columns(env: Env, spec: Object, conditions: list[Object], cells: list[str]) -> None:
    api = Api(env, GATE_ON)
    await api.create(WORKLOADS, workload(template()))
    await api.create(GROUPS, group(**spec))
    await api.patch(f"{GROUPS}/g/status", {"status": {"conditions": conditions}})
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    printed = (await api.request("GET", f"{GROUPS}/g", accept=table)).body
    assert [column["name"] for column in printed["columnDefinitions"]] == [
        "Name",
        "Policy",
        "Workload",
        "Status",
        "Age",
    ]
    assert printed["rows"][0]["cells"] == ["g", *cells, "0s"]
    printed = (await api.request("GET", f"{WORKLOADS}/w", accept=table)).body
    assert [column["name"] for column in printed["columnDefinitions"]] == ["Name", "Age"]
    assert printed["rows"][0]["cells"] == ["w", "0s"]


@pytest.mark.parametrize(
    "document",
    [
        {
            **group(podGroupTemplateRef=template_of(), schedulingPolicy=GANG, **GATED),
            "status": {"conditions": [CONDITION]},
        },
        workload(template(**GATED), controllerRef=JOB),
    ],
    ids=["PodGroup", "Workload"],
)
def test_protobuf_equals_json(document: Object) -> None:
    kind = "Workload" if document["metadata"]["name"] == "w" else "PodGroup"
    document = {"kind": kind, "apiVersion": "scheduling.k8s.io/v1alpha2", **document}
    decoded = protobuf.decode_object(protobuf.encode_object(document))
    assert {name: decoded[name] for name in document if name != "metadata"} == {
        name: value for name, value in document.items() if name != "metadata"
    }
