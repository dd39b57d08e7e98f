"""MutatingAdmissionPolicy: apply configurations and JSON patches from CEL expressions."""

from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, Answer, Api, Object, pod
from tests.custom_resources import DEFINITIONS, definition
from tests.tables import cases

from pilothouse.cel.initializers import initializers_as_maps, unescape

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"


@pytest.mark.parametrize(
    ("source", "rewritten"),
    [
        ("Object{a: 1}", '{"@":0,"a": 1}'),
        ("Object{a: Object.a{b: x, ?c: y}}", '{"@":0,"a":   {"@":1,"b": x, ?"c": y}}'),
        ("[JSONPatch{op: 'add', value: {'k': Object}}]", "[         {\"op\": 'add', \"value\": {'k': Object}}]"),
        ("Object{a: c ? [d, e] : f(g, h), i: {j: k}}", '{"@":0,"a": c ? [d, e] : f(g, h), "i": {j: k}}'),
        ("'Object{a: 1}' + x.Object", "'Object{a: 1}' + x.Object"),
        ("Object { // a: 1\n  my__dash__name: 1 }", ' {"@":0, // a: 1\n  "my-name": 1 }'),
        ("object.spec{a: 1}", "object.spec{a: 1}"),
    ],
)  # fmt: skip
def test_object_initializers_become_maps(source: str, rewritten: str) -> None:
    assert initializers_as_maps(source).text == rewritten


def test_escaped_field_names_are_unescaped() -> None:
    assert [unescape(name) for name in ("a", "a__dot__b", "__namespace__", "x__underscores__")] == [
        "a",
        "a.b",
        "namespace",
        "x__",
    ]


def policy(*mutations: str, name: str = "p", resources: str = "configmaps", **spec: Any) -> Object:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resources]}
    return {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "reinvocationPolicy": "Never",
            "mutations": [_mutation(text) for text in mutations],
            **spec,
        },
    }


def _mutation(text: str) -> Object:
    if "JSONPatch" in text:
        return {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}


def binding(name: str = "b", to: str = "p", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"policyName": to, **spec}}


def config_map(**data: str) -> Object:
    return {"metadata": {"name": "c", "labels": {"x": "y"}}, "data": data}


async def created(api: Api, policy_spec: Object, bound: Object | None = None) -> Answer:
    await api.create(POLICIES, policy_spec)
    await api.create(BINDINGS, bound or binding())
    return await api.post(CONFIG_MAPS, config_map(a="1"))


LABEL = "Object{metadata: Object.metadata{labels: Object.metadata.labels{team: 'core'}}}"
PATCH = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('b/c'), value: object.data.a + '1'}]"


@cases(
    "policy_spec, labels, data",
    {
        "an apply configuration": (policy(LABEL), {"x": "y", "team": "core"}, {"a": "1"}),
        "a patch after it": (policy(LABEL, PATCH), {"x": "y", "team": "core", "b/c": "11"}, {"a": "1"}),
        "match condition is false": (
            policy(PATCH, matchConditions=[{"name": "m", "expression": "object.data.a == '2'"}]),
            {"x": "y"},
            {"a": "1"},
        ),
        "a test that fails": (
            policy("[JSONPatch{op: 'test', path: '/data/a', value: '2'}, JSONPatch{op: 'remove', path: '/data/a'}]"),
            {"x": "y"},
            {"a": "1"},
        ),
        "variables": (
            policy(
                "Object{data: Object.data{b: variables.twice}}",
                variables=[{"name": "twice", "expression": "object.data.a + object.data.a"}],
            ),
            {"x": "y"},
            {"a": "1", "b": "11"},
        ),
        "a failure that is ignored": (
            policy("Object{data: Object.data{b: object.nothing}}", failurePolicy="Ignore"),
            {"x": "y"},
            {"a": "1"},
        ),
    },
)
async def test_objects_are_mutated(api: Api, policy_spec: Object, labels: Object, data: Object) -> None:
    answer = await created(api, policy_spec)
    assert (answer.status, answer.meta["labels"], answer.body["data"]) == (201, labels, data)


async def test_failing_policy_rejects(api: Api) -> None:
    answer = await created(api, policy("Object{data: Object.data{b: object.nothing}}"))
    message = (
        "policy 'p' with binding 'b' denied request: expression 'Object{data: Object.data{b: object.nothing}}' "
        "resulted in error: no such key: nothing"
    )
    assert (answer.status, answer.body["reason"], answer.message) == (403, "Invalid", message)
    assert answer.body["details"]["causes"] == [{"message": message}]


MOVE = "[JSONPatch{op: 'move', from: '/data/z', path: '/data/b'}]"


@cases(
    "failure_policy, status",
    {"rejected for both failures": ("Fail", 403), "mutated by the others": ("Ignore", 201)},
)
async def test_mutations_after_a_failed_one_are_evaluated(api: Api, failure_policy: str, status: int) -> None:
    """Recorded from v1.36.2."""
    mutations = (MOVE, "[JSONPatch{op: 'add', path: '/data/c', value: '2'}]", MOVE)
    answer = await created(api, policy(*mutations, failurePolicy=failure_policy))
    assert answer.status == status
    if status == 201:
        assert answer.body["data"] == {"a": "1", "c": "2"}
        return
    detail = "JSON Patch: error in move for path: 'z': Unable to remove nonexistent key: z: missing value"
    failure = {"message": f"{DENIED}{detail}"}
    assert answer.body["details"]["causes"] == [failure, failure]


async def test_map_lists_merge_by_keys_and_atomic_lists_are_rejected(api: Api) -> None:
    sidecar = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'i'%s}]}}"
    await api.create(POLICIES, policy(sidecar % "", resources="pods"))
    await api.create(BINDINGS, binding())
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    merged = await api.post(PODS, pod)
    await api.create(POLICIES, policy(sidecar % ", args: ['x']", resources="pods", name="q"))
    await api.create(BINDINGS, binding("c", "q"))
    pod["metadata"] = {"name": "q"}
    rejected = await api.post(PODS, pod)
    assert [container["name"] for container in merged.body["spec"]["containers"]] == ["main", "side"]
    assert merged.body["spec"]["containers"][1]["imagePullPolicy"] == "Always"
    assert rejected.message == (
        "policy 'q' with binding 'c' denied request: error applying patch: invalid ApplyConfiguration: may not mutate "
        "atomic arrays, maps or structs: .spec.containers[0].args"
    )


async def test_reinvocation_policy_if_needed(api: Api) -> None:
    count = "Object{data: Object.data{seen: string(size(object.data))}}"
    for name, again in (("a", "IfNeeded"), ("b", "Never")):
        text = count if name == "a" else "Object{data: Object.data{b: 'b'}}"
        await api.create(POLICIES, policy(text, name=name, reinvocationPolicy=again))
        await api.create(BINDINGS, binding(name, name))
    assert [(await api.post(CONFIG_MAPS, config_map(a="1"))).body["data"]] == [{"a": "1", "b": "b", "seen": "3"}]


@cases(
    "policies, data",
    {
        "one": ({"a": "IfNeeded"}, {"a": "2"}),
        "one that is not called again": ({"a": "Never"}, {"a": "1"}),
        "before another": ({"a": "IfNeeded", "b": "Never"}, {"a": "3", "b": "2"}),
        "after another": ({"a": "Never", "b": "IfNeeded"}, {"a": "1", "b": "3"}),
        "both": ({"a": "IfNeeded", "b": "IfNeeded"}, {"a": "3", "b": "3"}),
    },
)
async def test_policies_are_called_a_second_time(api: Api, policies: dict[str, str], data: Object) -> None:
    """Recorded from v1.36.2, which calls several in any order: also one that is the only one to change the object."""
    for name, again in policies.items():
        value = f"[JSONPatch{{op: 'add', path: '/data/{name}', value: string(size(object.data))}}]"
        await api.create(POLICIES, policy(value, name=name, reinvocationPolicy=again))
        await api.create(BINDINGS, binding(name, name))
    assert (await api.post(CONFIG_MAPS, config_map(x="0"))).body["data"] == {"x": "0", **data}


async def test_mutations_keep_managed_fields(api: Api) -> None:
    before = await api.create(CONFIG_MAPS, config_map(a="1"))
    await api.create(POLICIES, policy(LABEL, PATCH))
    await api.create(BINDINGS, binding())
    after = (await api.patch(CONFIG_MAPS + "/c", {"data": {"a": "2"}})).body
    assert after["metadata"]["labels"] == {"x": "y", "team": "core", "b/c": "21"}
    assert [managed_field["manager"] for managed_field in after["metadata"]["managedFields"]] == ["test"]
    assert before["metadata"]["managedFields"][0]["fieldsType"] == "FieldsV1"


@cases(
    "policy_spec, problem",
    {
        "an unknown name": (
            policy("Object{data: nothing}"),
            'spec.mutations[0].applyConfiguration.expression: Invalid value: "Object{data: nothing}": compilation '
            "failed: ERROR",
        ),
        "an unknown patch": (
            {**policy(), "spec": {**policy()["spec"], "mutations": [{"patchType": "Merge"}]}},
            'spec.mutations[0].patchType: Unsupported value: "Merge": supported values: '
            '"ApplyConfiguration", "JSONPatch"',
        ),
    },
)
async def test_rejected_policies(api: Api, policy_spec: Object, problem: str) -> None:
    answer = await api.post(POLICIES, policy_spec)
    assert answer.status == 422
    assert problem in answer.message


@cases(
    "mutation, message",
    {
        "a text instead of an object": ("'x'", "applyConfiguration.expression: Invalid value: \"'x'\": must evaluate "
            "to Object but got string"),
        "a map": ("{'a': 1}", "applyConfiguration.expression: Invalid value: \"{'a': 1}\": must evaluate "
            "to Object but got map(string, int)"),
        "the object": ("object", 'applyConfiguration.expression: Invalid value: "object": must evaluate to Object but '
            "got dyn"),
        "an empty list": ("true ? [] : [] // JSONPatch", "jsonPatch.expression: Invalid value: \"true ? [] : [] // "
            "JSONPatch\": must evaluate to list(JSONPatch) but got list(dyn)"),
        "a list of texts": ("['JSONPatch']", "jsonPatch.expression: Invalid value: \"['JSONPatch']\": must evaluate to "
            "list(JSONPatch) but got list(string)"),
    },
)  # fmt: skip
async def test_mutations_of_another_type_are_invalid(api: Api, mutation: str, message: str) -> None:
    answer = await api.post(POLICIES, policy(mutation))
    assert (answer.status, answer.message) == (
        422,
        f'MutatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: spec.mutations[0].{message}',
    )


@cases(
    "mutation, expected, named",
    {
        "an item of a list": (
            "Object{a: [Object.a.item{b: 1}], c: object.data.map(k, Object.a{d: k})}",
            "Object.a",
            "Object.a.item",
        ),
        "a field": ("Object{data: Object.metadata{a: '1'}}", "Object.data", "Object.metadata"),
        "a value of a patch": (
            "[JSONPatch{op: 'add', path: '/data', value: Object.spec{x: Object.x{y: '1'}}}]",
            "Object.spec.x",
            "Object.x",
        ),
    },
)
async def test_types_of_objects_are_named_after_their_fields(
    api: Api, mutation: str, expected: str, named: str
) -> None:
    """Recorded from v1.36.2."""
    answer = await created(api, policy(mutation))
    first = f'{DENIED}type mismatch: unexpected type name "{named}", expected "{expected}", which matches field name '
    assert answer.status == 403
    assert answer.message.startswith(f"{first}path from root Object type")


async def test_objects_have_no_entries_but_their_fields(api: Api) -> None:
    value = "Object.data{x: string(size(object.data.map(k, Object.data.y{z: k})))}"
    answer = await created(api, policy(f"[JSONPatch{{op: 'add', path: '/data', value: {value}}}]"))
    assert (answer.status, answer.body["data"]) == (201, {"x": "1"})


DENIED = "policy 'p' with binding 'b' denied request: "


@cases(
    "mutation, message",
    {
        "an unknown field": ("Object{foo: 'x'}", "error applying patch: failed to convert patch object to typed "
            "object: .foo: field not declared in schema"),
        "a value of another type": ("Object{immutable: 'x'}", "error applying patch: failed to convert patch object to "
            "typed object: .immutable: expected boolean, got &{x}"),
        "a patch that does not apply": ("[JSONPatch{op: 'remove', path: '/data/b'}]", "JSON Patch: error in remove for "
            "path: '/data/b': Unable to remove nonexistent key: b: missing value"),
        "a patch with a test that does not apply": ("[JSONPatch{op: 'test', path: '/data/a', value: '1'}, "
            "JSONPatch{op: 'remove', path: '/data/b'}]", "JSON Patch: error in remove for path: '/data/b': Unable to "
            "remove nonexistent key: b: missing value"),
    },
)  # fmt: skip
async def test_messages_of_mutations(api: Api, mutation: str, message: str) -> None:
    answer = await created(api, policy(mutation))
    assert (answer.status, answer.message) == (403, DENIED + message)


async def test_unknown_fields_of_patches_are_rejected(api: Api) -> None:
    """Recorded from v1.36.2."""
    patch = "[JSONPatch{op: 'add', path: '/foo', value: 'x'}, JSONPatch{op: 'add', path: '/metadata/bar', value: 'x'}]"
    answer = await created(api, policy(patch))
    detail = 'strict decoding error: unknown field "foo", unknown field "metadata.bar"'
    assert (answer.status, answer.body["message"]) == (500, f"Internal error occurred: {detail}")


async def test_patch_that_removes_the_kind_of_a_custom_object_is_rejected(api: Api) -> None:
    """Recorded from v1.36.2. Built-in objects are decoded as the type of their kind."""
    await api.create(DEFINITIONS, definition("Widget"))
    removing = policy("[JSONPatch{op: 'remove', path: '/kind'}]", resources="*")
    removing["spec"]["matchConstraints"]["resourceRules"][0]["apiGroups"] = ["*"]
    assert (await created(api, removing)).status == 201
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"b": 1, "a": "<"}}
    answer = await api.post("/apis/example.com/v1/namespaces/default/widgets", widget)
    assert answer.status == 500
    assert answer.body["message"].startswith(
        """Internal error occurred: Object 'Kind' is missing in '{"apiVersion":"example.com/v1","metadata":{"""
    )
    assert answer.body["message"].endswith("""\"name":"w","namespace":"default"},"spec":{"a":"\\u003c","b":1}}'""")


async def test_earlier_plugins_see_the_mutated_object(api: Api) -> None:
    """They are called again (``reinvocation.go``): priorities are computed from the class before policies run."""
    patch = "[JSONPatch{op: 'add', path: '/spec/priorityClassName', value: 'system-node-critical'}]"
    await api.create(POLICIES, policy(patch, resources="pods"))
    await api.create(BINDINGS, binding())
    assert (await api.post(PODS, pod("p"))).message == (
        'pods "p" is forbidden: the integer value of priority (0) must not be provided in pod spec; priority admission '
        "controller computed 2000001000 from the given PriorityClass name"
    )


async def test_apply_configurations_do_not_fit_scales(api: Api) -> None:
    scaled = policy("Object{spec: Object.spec{replicas: 7}}", resources="deployments/scale")
    scaled["spec"]["matchConstraints"]["resourceRules"][0]["apiGroups"] = ["apps"]
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.create(deployments, {"metadata": {"name": "d"}, "spec": spec})
    await api.create(POLICIES, scaled)
    await api.create(BINDINGS, binding())
    answer = await api.patch(f"{deployments}/d/scale", {"spec": {"replicas": 3}})
    assert answer.message == DENIED + (
        "error applying patch: failed to convert patch object to typed object: no corresponding type for "
        "autoscaling/v1, Kind=Scale"
    )


class Worker:
    """A stub of the worker thread, which records its work."""

    is_full = False

    def __init__(self) -> None:
        self.worked: list[str] = []

    async def run(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.worked.append(function.__name__)
        return function(*args, **kwargs)


@pytest.mark.parametrize(
    "mutation", ["Object{data: {'a': 'b'}}", "[JSONPatch{op: 'add', path: '/data/a', value: 'b'}]"]
)
async def test_large_objects_are_mutated_in_the_worker(api: Api, mutation: str) -> None:
    await api.create(POLICIES, policy(mutation))
    await api.create(BINDINGS, binding())
    worker = Worker()
    api.server.core.long_work.get_worker = lambda: worker
    small = await api.post(CONFIG_MAPS, {"metadata": {"name": "small"}, "data": {"x": ""}})
    assert (small.body["data"], worker.worked) == ({"a": "b", "x": ""}, [])
    values = {f"key-{number}": "" for number in range(4_000)}
    large = await api.post(CONFIG_MAPS, {"metadata": {"name": "large"}, "data": values})
    assert large.body["data"] == {**values, "a": "b"}
    assert [name for name in worker.worked if name in ("apply", "replace_object")] == ["apply", "replace_object"]
