"""Custom resources: definitions, serving and deletion (facts from kube-apiserver v1.36.2)."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests import custom_resources
from tests.apiserver.api import CONFIG_MAPS, STRATEGIC, Answer, Api, Object, config_map
from tests.custom_resources import DEFINITIONS, schema, version
from tests.tables import cases

from pilothouse.env import Env

APPLY = "application/apply-patch+yaml"
DEFINITION = DEFINITIONS + "/foos.example.com"
FOOS = "/apis/example.com/v1/namespaces/default/foos"
REGISTRATION = "admissionregistration.k8s.io"


def definition() -> Object:
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 5},
            "replicas": {"type": "integer", "default": 2},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "title": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"},
            "port": {"x-kubernetes-int-or-string": True},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "note": {"type": "string", "nullable": True},
            "when": {"type": "string", "format": "date-time"},
        },
    }
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    v1 = version(
        schema=schema(spec, status=status),
        subresources={"status": {}, "scale": paths},
        selectableFields=[{"jsonPath": ".spec.color"}],
    )
    return custom_resources.definition("Foo", v1, version("v2", storage=False), names={"shortNames": ["fs"]})


def foo(name: str = "f", **spec: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": {"size": 1, **spec}}


async def test_definition_is_served_after_the_create_response(api: Api) -> None:
    before = await api.get(FOOS)
    created = await api.post(DEFINITIONS, definition())
    answer = await api.get(DEFINITION)
    listed = await api.get(FOOS)
    assert (before.status, before.text) == (404, "404 page not found\n")
    assert created.body["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    now = "2026-01-01T00:00:00Z"
    assert answer.body["status"]["conditions"] == [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    assert answer.body["status"]["acceptedNames"] == {
        "plural": "foos",
        "singular": "foo",
        "shortNames": ["fs"],
        "kind": "Foo",
        "listKind": "FooList",
    }
    assert answer.meta["generation"] == 1
    assert listed.body["kind"] == "FooList"
    assert listed.body["metadata"]["continue"] == ""


async def test_unknown_fields_are_pruned_and_defaults_filled_in(api: Api) -> None:
    body = foo(bar=1, open={"x": 1}, note=None, port="http")
    body["metadata"]["foo"] = 1
    body["status"] = {"replicas": 3}
    await api.create(DEFINITIONS, definition())
    answer = await api.post(FOOS, body)
    assert answer.status == 201
    assert answer.body["spec"] == {"size": 1, "open": {"x": 1}, "note": None, "port": "http", "replicas": 2}
    assert "status" not in answer.body
    assert answer.headers["warning"] == '299 - "unknown field \\"metadata.foo\\"", 299 - "unknown field \\"spec.bar\\""'
    assert answer.meta["generation"] == 1


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
        ),
        pytest.param({"size": 9}, "spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5"),
        pytest.param(
            {"size": "1"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'
        ),
        pytest.param({"color": "pink"}, 'spec.color: Unsupported value: "pink": supported values: "red", "blue"'),
        pytest.param({"title": "abcdef"}, "spec.title: Too long: may not be more than 5 bytes"),
        pytest.param({"title": "A"}, "spec.title: Invalid value: \"A\": spec.title in body should match '^[a-z]+$'"),
        pytest.param(
            {"port": True},
            'spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
        ),
        pytest.param({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
        pytest.param({"when": "x"}, 'spec.when: Invalid value: "x": spec.when in body must be of type date-time: "x"'),
    ],
)
async def test_values_rejected_by_the_schema(api: Api, spec: Object, text: str) -> None:
    await api.create(DEFINITIONS, definition())
    answer = await api.post(FOOS, foo(**spec))
    assert answer.status == 422
    assert answer.message == f'Foo.example.com "f" is invalid: {text}'


async def test_a_missing_required_field_is_named(api: Api) -> None:
    body = foo()
    del body["spec"]["size"]
    await api.create(DEFINITIONS, definition())
    assert (await api.post(FOOS, body)).message == 'Foo.example.com "f" is invalid: spec.size: Required value'


async def test_ratcheting_skips_unchanged_values(api: Api) -> None:
    """A stricter schema does not prevent updates of existing objects."""
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo(size=5))
    stricter = (await api.get(DEFINITION)).body
    properties = stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["size"]["maximum"] = 3
    assert (await api.put(DEFINITION, stricter)).status == 200
    other = await api.patch(FOOS + "/f", {"spec": {"color": "red"}})
    same = await api.patch(FOOS + "/f", {"spec": {"size": 4}})
    assert other.status == 200
    assert same.status == 422


async def test_generation_and_status_of_a_custom_object(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo())
    observed = []
    for target, patch in (
        (FOOS + "/f", {"spec": {"size": 2}}),
        (FOOS + "/f", {"metadata": {"labels": {"a": "b"}}}),
        (FOOS + "/f", {"status": {"replicas": 9}}),
        (FOOS + "/f/status", {"status": {"replicas": 3}, "spec": {"size": 5}, "metadata": {"labels": {"c": "d"}}}),
    ):
        answer = await api.patch(target, patch)
        observed.append((answer.meta["generation"], answer.body.get("status"), answer.body["spec"]["size"]))
    assert observed == [(2, None, 2), (2, None, 2), (2, None, 2), (2, {"replicas": 3}, 2)]


async def test_errors_of_a_status_update_have_the_paths_inside_of_the_status(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    obj = await api.create(FOOS, foo())
    answer = await api.put(f"{FOOS}/f/status", {**obj, "status": {"replicas": "2"}})
    assert '[status.replicas: Invalid value: "string": replicas in body must be of type integer: "' in answer.message


async def test_scale_of_a_custom_object(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo())
    await api.patch(FOOS + "/f/status", {"status": {"replicas": 1, "selector": "a=b"}})
    scaled = await api.patch(FOOS + "/f/scale", {"spec": {"replicas": 4}})
    answer = await api.get(FOOS + "/f")
    emptied = await api.put(FOOS + "/f/scale", {"metadata": {"name": "f"}, "spec": {}})
    assert scaled.body["spec"] == {"replicas": 4}
    assert scaled.body["status"] == {"replicas": 1, "selector": "a=b"}
    assert (answer.body["spec"]["replicas"], answer.meta["generation"]) == (4, 2)
    # In Go a missing number is 0.
    assert (emptied.status, emptied.body["spec"]) == (200, {})


@cases(
    "change, outcome",
    {
        "replicas": ({"spec": {"replicas": 3}}, (200, 3)),
        "removed": ({"spec": {"replicas": None}}, (200, 0)),
        "missing spec": ({"metadata": {"labels": {"a": "b"}}}, (400, None)),
        "empty object": ({}, (400, None)),
    },
)
async def test_scale_without_replicas_can_be_patched_but_not_read(
    api: Api, change: Object, outcome: tuple[int, int | None]
) -> None:
    """``ScaleREST`` (apiextensions-apiserver v0.36 pkg/registry/customresource/etcd.go), and v1.20.2 does so."""
    crd = definition()
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del fields["replicas"]["default"]
    await api.create(DEFINITIONS, crd)
    await api.create(FOOS, foo())
    before = await api.get(FOOS + "/f/scale")
    patched = await api.patch(FOOS + "/f/scale", change)
    answer = await api.get(FOOS + "/f")
    assert (before.status, before.message) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.replicas" does not exist',
    )
    assert (patched.status, answer.body["spec"].get("replicas")) == outcome
    if patched.status == 400:
        assert patched.message == 'the spec replicas field ".spec.replicas" cannot be empty'


async def test_definition_delete_returns_the_terminating_definition(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    deleted_foo = foo()
    deleted_foo["metadata"]["finalizers"] = ["example.com/held"]
    await api.create(FOOS, deleted_foo)
    deleted = await api.delete(DEFINITION)
    answer = await api.get(DEFINITION)
    served = await api.get("/apis/example.com/v1")
    assert [(item["type"], item["status"], item["reason"], item["message"]) for item in conditions_of(deleted)[2:]] == [
        (
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        )
    ]
    assert [item["reason"] for item in conditions_of(answer)[2:]] == ["InstanceDeletionInProgress"]
    assert served.body["resources"][0]["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]


def conditions_of(answer: Answer) -> list[Object]:
    result: list[Object] = answer.body["status"]["conditions"]
    return result


async def test_unaggregated_discovery_of_custom_resources(api: Api) -> None:
    """apiextensions-apiserver v0.36 ``pkg/apiserver/customresource_discovery_controller.go``."""
    await api.create(DEFINITIONS, definition())
    whole, status, scale = (await api.get("/apis/example.com/v1")).body["resources"]
    assert whole["verbs"] == ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    assert status == {
        "name": "foos/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Foo",
        "verbs": ["get", "patch", "update"],
    }
    assert (scale["name"], scale["group"], scale["version"]) == ("foos/scale", "autoscaling", "v1")


async def test_unsupported_media_type_error(api: Api) -> None:
    """Protobuf is named although custom objects have none, as by v1.20.2 and v0.36 ``customresource_handler.go``."""
    await api.create(DEFINITIONS, definition())
    answer = await api.request("GET", FOOS, accept="text/html")
    message = "only the following media types are accepted: application/json, application/yaml, "
    assert (answer.status, answer.message) == (406, message + "application/vnd.kubernetes.protobuf")
    assert "details" not in answer.body


async def test_versions_serve_the_same_object(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo())
    second = FOOS.replace("/v1/", "/v2/")
    events = await api.watch(second)
    one = await api.get(second + "/f")
    many = await api.get(second)
    (type_, event) = await events.next()
    assert one.body["apiVersion"] == "example.com/v2"
    assert many.body["items"] == [one.body]
    assert (type_, event) == ("ADDED", one.body)


async def test_selectable_fields(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    for name, color in (("a", "red"), ("b", "blue")):
        await api.create(FOOS, foo(name, color=color))
    answer = await api.get(FOOS + "?fieldSelector=spec.color%3Dblue")
    rejected = await api.get(FOOS + "?fieldSelector=spec.size%3D1")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["b"]
    assert (rejected.status, rejected.message) == (400, "field label not supported: spec.size")


@cases(
    "change, code, message",
    {
        "missing resourceVersion": (
            lambda o: o["metadata"].pop("resourceVersion"),
            422,
            'foos.example.com "f" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for '
            "an update",
        ),
        "another kind": (
            lambda o: o.update(kind="Bar"),
            422,
            'Bar.example.com "f" is invalid: kind: Invalid value: "Bar": must be Foo',
        ),
        "another version": (
            lambda o: o.update(apiVersion="example.com/v2"),
            400,
            "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)",
        ),
    },
)
async def test_rejected_updates(api: Api, change: Callable[[Object], Any], code: int, message: str) -> None:
    await api.create(DEFINITIONS, definition())
    created = await api.create(FOOS, foo())
    change(created)
    answer = await api.put(FOOS + "/f", created)
    assert (answer.status, answer.message) == (code, message)


async def test_strategic_merge_patch_is_rejected(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo())
    assert (await api.patch(FOOS + "/f", {}, "application/strategic-merge-patch+json")).status == 415


async def test_patch_cannot_change_the_kind(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo())
    await api.create(CONFIG_MAPS, config_map())
    kind, version, unknown, known, strategic = [
        await api.patch(FOOS + "/f", {"kind": "Bar"}),
        await api.patch(FOOS + "/f", {"apiVersion": "example.com/v2"}),
        await api.patch(CONFIG_MAPS + "/c", {"kind": "Foo"}),
        await api.patch(CONFIG_MAPS + "/c", {"kind": "Deployment", "apiVersion": "apps/v1"}),
        await api.patch(CONFIG_MAPS + "/c", {"kind": "Foo"}, STRATEGIC),
    ]
    assert kind.message == 'Bar.example.com "f" is invalid: kind: Invalid value: "Bar": must be Foo'
    assert version.message == (
        'Foo.example.com "f" is invalid: apiVersion: Invalid value: "example.com/v2": must be example.com/v1'
    )
    assert (unknown.status, known.status, strategic.status) == (422, 422, 200)
    assert 'no kind "Foo" is registered for version "v1" in scheme' in unknown.message
    assert "converting (v1.Deployment) to (core.ConfigMap): unknown conversion" in known.message


async def test_stored_objects_are_pruned_and_defaulted_by_the_current_schema(api: Api) -> None:
    """Defaults are added, unknown fields removed; earlier watches end."""
    crd = definition()
    await api.create(DEFINITIONS, crd)
    await api.create(FOOS, foo(title="abc"))
    events = await api.watch(FOOS)
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del fields["title"]
    fields["shape"] = {"type": "string", "default": "round"}
    assert (await api.patch(DEFINITION, {"spec": crd["spec"]})).status == 200
    read = await api.get(FOOS + "/f")
    listed = await api.get(FOOS)
    ended = [type_ for type_, _obj in await events.rest()]
    labelled = await api.patch(FOOS + "/f?fieldValidation=Strict", {"metadata": {"labels": {"a": "b"}}})
    _type, event_object = await (await api.watch(FOOS)).next()
    observed_specs = {"listed": listed.body["items"][0]["spec"], "seen": event_object["spec"]}
    spec = {"size": 1, "replicas": 2, "shape": "round"}
    assert (read.body["spec"], observed_specs) == (spec, {"listed": spec, "seen": spec})
    assert ended == ["ADDED"]
    assert (labelled.status, labelled.body["spec"], labelled.meta["generation"]) == (200, spec, 1)


async def test_stored_versions_are_never_empty(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    assert (await api.patch(DEFINITION + "/status", {"status": {"storedVersions": []}})).body["status"][
        "storedVersions"
    ] == ["v1"]


# The end


async def test_deleting_a_definition_deletes_its_objects(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo())
    events = await api.watch(FOOS)
    deleted = await api.delete(DEFINITION)
    definition_after = await api.get(DEFINITION)
    foos_after = await api.get(FOOS)
    observed = [type_ for type_, _obj in await events.rest()]
    assert deleted.meta["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert deleted.meta["generation"] == 1
    assert [
        condition["reason"] for condition in deleted.body["status"]["conditions"] if condition["type"] == "Terminating"
    ] == ["InstanceDeletionPending"]
    assert (definition_after.status, foos_after.status) == (404, 404)
    assert observed == ["ADDED", "DELETED"]


async def test_objects_of_a_deleted_definition_are_not_admitted(api: Api) -> None:
    """Upstream deletes them in the storage (apiextensions-apiserver ``pkg/controller/finalizer/crd_finalizer.go``,
    v0.36: ``DeleteCollection`` with ``ValidateAllObjectFunc``): neither policies nor webhooks are asked."""
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo())
    rule = {"apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["foos"]}
    deny = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    binding = {"policyName": "keep", "validationActions": ["Deny"]}
    for kind, plural, spec in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", deny),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", binding),
    ):
        body = {"apiVersion": f"{REGISTRATION}/v1", "kind": kind, "metadata": {"name": "keep"}, "spec": spec}
        await api.create(f"/apis/{REGISTRATION}/v1/{plural}", body)
    by_a_client = await api.delete(FOOS + "/f")
    await api.delete(DEFINITION)
    foos_after, definition_after = await api.get(FOOS), await api.get(DEFINITION)
    assert (by_a_client.status, foos_after.status, definition_after.status) == (422, 404, 404)


async def test_definition_deletion_waits_for_object_finalizers(api: Api) -> None:
    running = asyncio.ensure_future(api.server.run())
    await api.create(DEFINITIONS, definition())
    body = foo()
    body["metadata"]["finalizers"] = ["a.b/c"]
    await api.create(FOOS, body)
    await api.delete(DEFINITION)
    waiting, rejected = await api.get(DEFINITION), await api.post(FOOS, foo("g"))
    await api.patch(FOOS + "/f", {"metadata": {"finalizers": None}})
    await asyncio.sleep(1)
    answer = await api.get(DEFINITION)
    running.cancel()
    conditions = {c["type"]: (c["status"], c["reason"]) for c in waiting.body["status"]["conditions"]}
    assert conditions["Terminating"] == ("True", "InstanceDeletionInProgress")
    assert (rejected.status, rejected.message) == (
        403,
        'foos.example.com "g" is forbidden: create not allowed while custom resource definition is terminating',
    )
    assert answer.status == 404


async def test_stored_definitions_are_served_at_startup(env: Env) -> None:
    from pilothouse.apiserver import ApiServer

    first = Api(env)
    await first.create(DEFINITIONS, definition())
    second = Api(env)
    second.store = first.store
    second.server = ApiServer(env, first.store)
    second.transport = second.server.transport("admin", ("system:masters",))
    assert (await second.post(FOOS, foo())).status == 201


# Definitions that are rejected


def _with(path: str, value: object) -> Object:
    changed = copy.deepcopy(definition())
    node: Any = changed
    *parents, last = path.split("/")
    for part in parents:
        node = node[int(part)] if part.isdigit() else node[part]
    node[int(last) if last.isdigit() else last] = value
    return changed


_VERSION = definition()["spec"]["versions"][0]


@cases(
    "body, message",
    {
        "name is not plural.group": (
            _with("metadata/name", "x.example.com"),
            'metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group',
        ),
        "unsupported scope": (
            _with("spec/scope", "World"),
            'spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"',
        ),
        "two storage versions": (
            _with("spec/versions/1/storage", True),
            "must have exactly one version marked as storage version",
        ),
        "a schema is required": (_with("spec/versions/0/schema", {}), "openAPIV3Schema: Required value"),
        "fields have types": (
            _with(
                "spec/versions/0/schema", {"openAPIV3Schema": {"type": "object", "properties": {"a": {"items": {}}}}}
            ),
            "properties[a].type: Required value: must not be empty for specified object fields",
        ),
        "protected groups need approval": (
            _with("spec/group", "x.k8s.io"),
            "metadata.annotations[api-approved.kubernetes.io]: Required value",
        ),
        "missing name": (
            _with("metadata", {}),
            '"" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        "invalid group": (
            _with("spec/group", "Example"),
            '[metadata.name: Invalid value: "foos.example.com": must be spec.names.plural+"."+spec.group, spec.group: '
            'Invalid value: "Example": a lowercase RFC 1123 subdomain must consist of',
        ),
        "an empty schema": (
            _with("spec/versions/0/schema", {"openAPIV3Schema": {}}),
            "spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root",
        ),
        "invalid name of the first version is reported twice": (
            _with("spec/versions/0/name", "V1"),
            'spec.version: Invalid value: "V1": a DNS-1035 label must consist of',
        ),
        "a warning of what is not deprecated": (
            _with("spec/versions/0/deprecationWarning", "a"),
            "can only be set for deprecated versions",
        ),
        "a warning of two lines": (
            _with("spec/versions/0", {**_VERSION, "deprecated": True, "deprecationWarning": "é\n"}),
            "must only contain printable UTF-8 characters; non-printable character found at index 2",
        ),
        "where a conversion webhook is": (
            _with("spec/conversion", {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://a"}}}),
            "[spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL "
            "scheme; desired format: https://host[/path], spec.conversion.conversionReviewVersions: Required value]",
        ),
        "unsupported conversion review versions": (
            _with(
                "spec/conversion",
                {
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {"service": {"name": "a", "namespace": "b", "path": "c"}},
                        "conversionReviewVersions": ["v2", "v2"],
                    },
                },
            ),
            "[spec.conversion.webhookClientConfig.service.path: Invalid value: \"c\": must start with a '/', "
            'spec.conversion.webhookClientConfig.service.path: Invalid value: "c": segment[0] may not be empty, '
            'spec.conversion.conversionReviewVersions[1]: Invalid value: "v2": duplicate version, '
            'spec.conversion.conversionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, '
            "v1beta1]",
        ),
        "the type at the root": (
            _with(
                "spec/versions/0/schema",
                {"openAPIV3Schema": {"type": "string"}},
            ),
            'schema.openAPIV3Schema.type: Invalid value: "string": only "object" is allowed as the type at the root of '
            "the schema if the status subresource is enabled",
        ),
    },
)
async def test_rejected_definitions(api: Api, body: Object, message: str) -> None:
    answer = await api.post(DEFINITIONS, body)
    assert answer.status == 422
    assert answer.message.startswith("CustomResourceDefinition.apiextensions.k8s.io ")
    assert message in answer.message


async def test_deprecated_versions_return_warnings(api: Api) -> None:

    warning = '299 - "example.com/v1beta1 Foo is deprecated; use example.com/v1 Foo"'
    body = definition()
    body["spec"]["versions"][1].update(name="v1beta1", deprecated=True)
    await api.create(DEFINITIONS, body)
    old = FOOS.replace("/v1/", "/v1beta1/")
    answers = [
        await api.get(FOOS),
        await api.get(old),
        await api.post(old, {**foo(), "apiVersion": "example.com/v1beta1"}),
    ]
    assert [answer.headers.get("warning", "") for answer in answers] == ["", warning, warning]


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("unapproved, a test", ("False", "UnapprovedAnnotation", 'not approved: "unapproved, a test"')),
        ("https://github.com/x", ("True", "ApprovedAnnotation", "approved in https://github.com/x")),
        ("nobody", None),
    ],
)
async def test_protected_groups_require_the_approval_annotation(
    api: Api, annotation: str, reason: tuple[str, str, str] | None
) -> None:
    body = definition()
    body["metadata"] = {"name": "foos.x.k8s.io", "annotations": {"api-approved.kubernetes.io": annotation}}
    body["spec"]["group"] = "x.k8s.io"
    created = await api.post(DEFINITIONS, body)
    answer = created if created.status == 422 else await api.get(DEFINITIONS + "/foos.x.k8s.io")
    if reason is None:
        assert 'with either a URL or a reason starting with "unapproved"' in answer.message
        return
    result = {condition["type"]: condition for condition in answer.body["status"]["conditions"]}[
        "KubernetesAPIApprovalPolicyConformant"
    ]
    assert (result["status"], result["reason"], result["message"]) == reason


async def test_resource_named_namespaces(api: Api) -> None:
    await api.post(DEFINITIONS, custom_resources.definition("Namespace"))
    collection = "/apis/example.com/v1/namespaces/default/namespaces"
    body = {"apiVersion": "example.com/v1", "kind": "Namespace", "metadata": {"name": "one"}}
    created = await api.post(collection, body)
    assert (created.status, created.body["metadata"]["namespace"]) == (201, "default")
    assert (await api.get(f"{collection}/one")).body["metadata"] == created.body["metadata"]
    listed = await api.get("/apis/example.com/v1/namespaces")
    assert [item["metadata"]["name"] for item in listed.body["items"]] == ["one"]
    assert (await api.delete(f"{collection}/one")).status == 200
    # The core group has no categories.
    assert (await api.get("/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault")).status == 200
    assert (await api.get("/api/v1/namespaces/default")).status == 200
    for path in ("default/namespaces", "default/namespaces/kube-system"):
        assert (await api.get(f"/api/v1/namespaces/{path}")).status == 404


async def test_boolean_that_replaces_a_number_is_stored(api: Api) -> None:
    """In Python ``True`` equals 1; in Go it does not."""
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo(open={"on": 1, "deep": {"off": [0]}}))
    for spec, generation in (({"on": True}, 2), ({"deep": {"off": [False]}}, 3), ({"on": 1}, 4), ({"on": 1.0}, 5)):
        answer = await api.patch(FOOS + "/f", {"spec": {"open": spec}})
        assert (answer.status, answer.meta["generation"]) == (200, generation)
    assert '"open":{"on":1,"deep":{"off":[false]}}' in (await api.get(FOOS + "/f")).text


async def test_apply_of_a_boolean_conflicts_with_the_manager_of_the_number(api: Api) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(FOOS, foo(open={"on": 1}))
    config = {**foo(), "spec": {"open": {"on": True}}}
    conflict = await api.patch(FOOS + "/f?fieldManager=m", config, APPLY)
    assert (conflict.status, conflict.body["details"]["causes"][0]["field"]) == (409, ".spec.open.on")
    forced = await api.patch(FOOS + "/f?fieldManager=m&force=true", config, APPLY)
    assert '"open":{"on":true}' in forced.text
    managers = {entry["manager"]: entry["fieldsV1"] for entry in forced.meta["managedFields"]}
    assert managers["m"] == {"f:spec": {"f:open": {"f:on": {}}}}
    assert "f:on" not in managers["test"]["f:spec"]["f:open"]


async def test_reset_fields_of_a_wrong_type_leave_an_object_without_managed_fields(api: Api) -> None:
    """Recorded from v1.36.2: the status of a create is dropped, but it is part of what managed fields are read from."""
    text = {"type": "object", "properties": {"a": {"type": "string"}}}
    served = version(schema=schema(text, status=text), subresources={"status": {}})
    await api.create(DEFINITIONS, custom_resources.definition("Gadget", served))
    gadgets = "/apis/example.com/v1/namespaces/default/gadgets"
    managers = {}
    for name, status in (("valid", {"a": "x"}), ("invalid", {"a": 1})):
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"a": "x"}}
        created = await api.post(gadgets, {**gadget, "status": status})
        assert created.status == 201
        managers[name] = len(created.meta.get("managedFields", ()))
    assert managers == {"valid": 1, "invalid": 0}
    patch = {"spec": "x", "status": {"a": "y"}}
    patched = await api.patch(f"{gadgets}/valid/status", patch)
    assert (patched.body["spec"], patched.body["status"]) == ({"a": "x"}, {"a": "y"})
    assert "managedFields" not in patched.meta
