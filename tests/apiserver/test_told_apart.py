"""Answers of many kinds that were once otherwise than a real kube-apiserver's."""

from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, JSON_PATCH, MERGE, NAMESPACES, PODS, STRATEGIC, Answer, Api

Object = dict[str, Any]
NODES = "/api/v1/nodes"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
RANGES = "/api/v1/namespaces/default/limitranges"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
JOB: Object = {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}}
DAEMON_SET: Object = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}


def config_map(name: str = "c", **meta: Any) -> Object:
    return {"metadata": {"name": name, **meta}, "data": {"a": "1"}}


async def asked(api: Api, method: str, target: str, body: Any, content_type: str = "application/json") -> Answer:
    """The answer where there is a ConfigMap ``c``."""
    await api.ask("POST", CONFIG_MAPS, config_map())
    return await api.ask(method, target, body, content_type)


@pytest.mark.parametrize(
    ("method", "target", "body", "content_type", "code", "message"),
    [
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c",
            [{}],
            STRATEGIC,
            400,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
            id="a strategic merge patch is an object",
        ),
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c",
            1,
            MERGE,
            400,
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
            id="a merge patch is an object",
        ),
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c",
            {},
            JSON_PATCH,
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            id="a JSON patch is a list",
        ),
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c",
            [{"op": ["add"], "path": "/data/b", "value": "1"}],
            JSON_PATCH,
            400,
            "error decoding patch: json: cannot unmarshal array into Go struct field jsonPatchOp.op of type string",
            id="an operation of a JSON patch has a name",
        ),
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c?fieldValidation=Ignore",
            [{"op": ["add"], "path": "/data/b", "value": "1"}],
            JSON_PATCH,
            422,
            "the server rejected our request due to an error in our request",
            id="an operation without a name is of no known kind",
        ),
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c",
            [None],
            JSON_PATCH,
            422,
            "the server rejected our request due to an error in our request",
            id="null is an operation of no known kind",
        ),
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c?fieldValidation=Ignore",
            ["add"],
            JSON_PATCH,
            400,
            "json: cannot unmarshal string into Go value of type jsonpatch.Operation",
            id="an operation is an object",
        ),
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c",
            [{"op": "remove", "path": "/metadata/name"}],
            JSON_PATCH,
            400,
            "the name of the object (c based on URL) was undeterminable: name must be provided",
            id="a patch does not take the name away",
        ),
        pytest.param(
            "PUT",
            f"{CONFIG_MAPS}/c",
            config_map(resourceVersion="abc"),
            "application/json",
            500,
            'strconv.ParseUint: parsing "abc": invalid syntax',
            id="a PUT with a resource version that is no number",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            config_map("Bad", resourceVersion="7"),
            "application/json",
            422,
            'ConfigMap "Bad" is invalid: metadata.name: Invalid value: "Bad": a lowercase RFC 1123 subdomain must '
            "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            id="a create is judged before its resource version is looked at",
        ),
        pytest.param(
            "PUT",
            CONFIG_MAPS,
            {},
            "application/json",
            405,
            "the server does not allow this method on the requested resource",
            id="a PUT is for one object",
        ),
        pytest.param(
            "POST",
            f"{CONFIG_MAPS}/c",
            {},
            "application/json",
            405,
            "the server does not allow this method on the requested resource",
            id="a create is for the collection",
        ),
        pytest.param(
            "PATCH",
            f"{CONFIG_MAPS}/c",
            {"metadata": {"deletionGracePeriodSeconds": 0}},
            MERGE,
            422,
            'ConfigMap "c" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable',
            id="only a DELETE says how long an object stays",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            config_map(generateName="d-"),
            "application/json",
            409,
            'configmaps "c" already exists, the server was not able to generate a unique name for the object',
            id="a name that is taken, with a prefix for others",
        ),
        pytest.param(
            "POST",
            JOBS,
            JOB,
            "application/json",
            422,
            'Job.batch "" is invalid: metadata.name: Required value: name or generateName is required',
            id="a job without a name",
        ),
        pytest.param(
            "GET",
            f"{CONFIG_MAPS}?resourceVersion=-1",
            None,
            "application/json",
            400,
            'invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": '
            "invalid syntax",
            id="a list at a resource version that is no number",
        ),
        pytest.param(
            "GET",
            f"{CONFIG_MAPS}?labelSelector=a+in+%28&resourceVersionMatch=Exact",
            None,
            "application/json",
            400,
            "unable to parse requirement: found '', expected: ',', ')' or identifier",
            id="selectors are read before options are judged",
        ),
        pytest.param(
            "GET",
            f"{CONFIG_MAPS}?labelSelector=a+in+%28&limit=x",
            None,
            "application/json",
            400,
            'strconv.ParseInt: parsing "x": invalid syntax',
            id="numbers are read before selectors",
        ),
        pytest.param(
            "DELETE",
            f"{CONFIG_MAPS}/c?propagationPolicy=",
            None,
            "application/json",
            422,
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "": supported values: '
            '"Foreground", "Background", "Orphan", "nil"',
            id="an empty policy in the query is a policy",
        ),
        pytest.param(
            "POST",
            RANGES,
            {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "min": {"fresh": "1"}}]}},
            "application/json",
            422,
            'LimitRange "l" is invalid: ['
            'spec.limits[0].min[fresh]: Invalid value: "fresh": must be a standard resource type or fully qualified, '
            'spec.limits[0].min[fresh]: Invalid value: "fresh": must be a standard resource for containers]',
            id="a limit of something unheard of",
        ),
        pytest.param(
            "POST",
            "/apis/networking.k8s.io/v1/ingressclasses",
            {"metadata": {"name": "i"}, "spec": {"controller": "a.example/b", "parameters": {"name": "x"}}},
            "application/json",
            422,
            'IngressClass.networking.k8s.io "i" is invalid: spec.parameters.kind: Required value',
            id="parameters of an ingress class have a kind",
        ),
    ],
)
async def test_refusals(
    api: Api, method: str, target: str, body: Any, content_type: str, code: int, message: str
) -> None:
    answer = await asked(api, method, target, body, content_type)
    assert (answer.status, answer.message) == (code, message)


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        pytest.param({"hostNetwork": False}, "hostNetwork", id="false"),
        pytest.param({"hostname": ""}, "hostname", id="an empty string"),
    ],
)
async def test_zero_values_are_not_stored_where_go_has_no_pointer(api: Api, spec: Object, left: str) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {**TEMPLATE["spec"], **spec}}
    assert left not in (await asked(api, "POST", PODS, pod)).body["spec"]


async def test_zero_values_are_stored_where_go_has_a_pointer(api: Api) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {**TEMPLATE["spec"], "enableServiceLinks": False}}
    assert (await asked(api, "POST", PODS, pod)).body["spec"]["enableServiceLinks"] is False


async def test_an_unreadable_resource_version_does_not_matter_to_a_create(api: Api) -> None:
    assert (await asked(api, "POST", CONFIG_MAPS, config_map("d", resourceVersion="abc"))).status == 201


async def test_an_update_may_set_a_prefix_for_generated_names(api: Api) -> None:
    answer = await asked(api, "PATCH", f"{CONFIG_MAPS}/c", {"metadata": {"generateName": "x-"}}, MERGE)
    assert answer.meta["generateName"] == "x-"


async def test_a_deleted_collection_is_told_as_it_was(api: Api) -> None:
    answer = await asked(api, "DELETE", CONFIG_MAPS, {"propagationPolicy": "Orphan"})
    assert [item["metadata"].get("deletionTimestamp") for item in answer.body["items"]] == [None]


async def test_objects_outside_of_namespaces_get_none_by_a_patch(api: Api) -> None:
    await api.ask("POST", NODES, {"metadata": {"name": "n"}})
    assert "namespace" not in (await api.ask("PATCH", f"{NODES}/n", {"metadata": {"namespace": "x"}}, MERGE)).meta


@pytest.mark.parametrize("given", ["podCIDR", "podCIDRs"])
async def test_a_node_has_its_range_in_both_fields(api: Api, given: str) -> None:
    value: Any = "10.1.0.0/24" if given == "podCIDR" else ["10.1.0.0/24"]
    spec = (await asked(api, "POST", NODES, {"metadata": {"name": "n"}, "spec": {given: value}})).body["spec"]
    assert (spec["podCIDR"], spec["podCIDRs"]) == ("10.1.0.0/24", ["10.1.0.0/24"])


async def test_accounts_refer_to_secrets_by_name_alone(api: Api) -> None:
    account = {"metadata": {"name": "s"}, "secrets": [{"name": "x", "namespace": "y", "uid": "z"}]}
    assert (await asked(api, "POST", ACCOUNTS, account)).body["secrets"] == [{"name": "x"}]


async def test_a_limit_range_without_a_name_gets_one(api: Api) -> None:
    answer = await asked(api, "POST", RANGES, {"spec": {"limits": [{"type": "Pod", "min": {"cpu": "1"}}]}})
    assert (answer.status, len(answer.meta["name"])) == (201, 36)


async def test_a_page_says_that_there_is_more_without_looking_whether_it_matches(api: Api) -> None:
    await api.ask("POST", CONFIG_MAPS, config_map("a", labels={"l": "x"}))
    await api.ask("POST", CONFIG_MAPS, config_map("b"))
    answer = await api.get(f"{CONFIG_MAPS}?labelSelector=l%3Dx&limit=1")
    assert len(answer.body["items"]) == 1
    assert answer.meta["continue"]


async def test_a_status_does_not_take_the_counter_of_templates_away(api: Api) -> None:
    made = (await api.ask("POST", DAEMON_SETS, {"metadata": {"name": "d"}, **DAEMON_SET})).body
    made["metadata"]["annotations"] = {}
    assert (await api.ask("PUT", f"{DAEMON_SETS}/d/status", made)).meta["annotations"] == {
        "deprecated.daemonset.template.generation": "1"
    }


async def test_a_namespace_of_another_revision_is_not_deleted(api: Api) -> None:
    await api.ask("POST", NAMESPACES, {"metadata": {"name": "n"}})
    assert (
        "Precondition failed: ResourceVersion in precondition: 1"
        in (await api.ask("DELETE", f"{NAMESPACES}/n", {"preconditions": {"resourceVersion": "1"}})).message
    )


async def test_tolerations_have_keys_that_are_names(api: Api) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {**TEMPLATE["spec"], "tolerations": [{"key": "-x"}]}}
    assert "spec.tolerations[0].key" in (await asked(api, "POST", PODS, pod)).message


@pytest.mark.parametrize(("operator", "code"), [("DoesNotExist", 201), ("Exists", 422)])
async def test_the_selector_of_a_job_may_ask_for_what_its_pods_have_anyway(api: Api, operator: str, code: int) -> None:
    asked_too = {"matchExpressions": [{"key": "tier", "operator": operator}]}
    assert (
        await api.post(JOBS, {"metadata": {"name": "j"}, "spec": {**JOB["spec"], "selector": asked_too}})
    ).status == code


@pytest.mark.parametrize(
    ("query", "count"),
    [
        pytest.param("fieldSelector=metadata.name%3Dc", 1, id="one name, as it is now"),
        pytest.param("labelSelector=!x", 0, id="a list, exactly as it was then"),
    ],
)
async def test_a_limit_and_a_revision_mean_the_past_but_for_one_name(api: Api, query: str, count: int) -> None:
    before = api.store.revision
    await api.made(CONFIG_MAPS, config_map())
    assert len((await api.get(f"{CONFIG_MAPS}?{query}&limit=1&resourceVersion={before}")).body["items"]) == count


async def test_what_is_wrong_without_a_reason_ends_with_the_value(api: Api) -> None:
    spec = {"selector": {"matchLabels": {"a b": "x"}}, "serviceName": "s", "template": TEMPLATE}
    assert (
        'spec.selector: Invalid value: {"matchLabels":{"a b":"x"}}]'
        in (
            await api.post("/apis/apps/v1/namespaces/default/statefulsets", {"metadata": {"name": "x"}, "spec": spec})
        ).message
    )


async def test_images_of_a_changed_pod_are_looked_at_once_more(api: Api) -> None:
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": TEMPLATE["spec"]})
    answer = await api.patch(f"{PODS}/p", [{"op": "remove", "path": "/spec/containers/0/image"}], JSON_PATCH)
    fields = [cause["field"] for cause in answer.body["details"]["causes"]]
    assert fields == ["spec.containers[0].image"] * 2
