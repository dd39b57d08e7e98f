"""What becomes of CustomResourceDefinitions that are written to: names, conditions, stored versions, deletion. As a
kube-apiserver v1.20.2 answers, and where that has changed, upstream's code of v1.36."""

from typing import Any

import pytest
from tests.apiserver.api import Answer, Api, Object, on

from pilothouse.apiserver.customresources.controller import CustomResources
from pilothouse.apiserver.customresources.structural import schema_problems
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.storage import Record

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = DEFINITIONS + "/foos.example.com"
NAMES = {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"}
SCHEMA: Object = {"openAPIV3Schema": {"type": "object"}}
V1: Object = {"name": "v1", "served": True, "storage": True, "schema": SCHEMA}


def definition(**spec: Any) -> Object:
    whole = {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, **spec}
    return {"metadata": {"name": "foos.example.com"}, "spec": {"versions": [V1], **whole}}


def conditions(answer: Answer) -> dict[str, tuple[str, str]]:
    return {found["type"]: (found["status"], found["reason"]) for found in answer.body["status"]["conditions"]}


def causes(answer: Answer) -> list[tuple[str, str]]:
    assert answer.status == 422, answer.text
    return [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]


async def established(api: Api, **spec: Any) -> Object:
    await api.made(DEFINITIONS, definition(**spec))
    return (await api.get(FOOS)).body


def test_names_that_somebody_else_wrote_into_the_status_are_put_right() -> None:
    async def main(api: Api) -> tuple[Answer, Answer]:
        wrong = await established(api)
        wrong["status"] = {"acceptedNames": {"plural": "bars", "kind": "Bar"}}
        return await api.put(FOOS + "/status", wrong), await api.get(FOOS)

    answer, then = on(main)
    assert answer.body["status"]["acceptedNames"] == {"plural": "bars", "kind": "Bar"}
    assert answer.body["status"]["storedVersions"] == ["v1"], "the default where there are none"
    assert then.body["status"]["acceptedNames"] == NAMES
    assert conditions(then) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }


def test_conditions_are_left_alone_where_the_names_are_right() -> None:
    async def main(api: Api) -> Answer:
        made = await established(api)
        made["status"]["conditions"][0]["reason"] = "Why"
        await api.put(FOOS + "/status", made)
        return await api.get(FOOS)

    assert conditions(on(main))["NamesAccepted"] == ("True", "Why")


def test_accepted_names_are_judged() -> None:
    async def main(api: Api) -> Answer:
        made = await established(api)
        made["status"]["acceptedNames"] = {"plural": "", "kind": "Foo", "listKind": "Foo"}
        return await api.put(FOOS + "/status", made)

    [(field, told)] = causes(on(main))
    assert field == "status.acceptedNames.listKind"
    assert told.endswith("kind and listKind may not be the same")


def test_a_stored_version_that_is_gone_is_told_of_at_every_update() -> None:
    async def main(api: Api) -> Answer:
        made = await established(api)
        made["status"]["storedVersions"] = ["v1", "v0"]
        await api.put(FOOS + "/status", made)
        return await api.patch(FOOS, {"metadata": {"labels": {"a": "b"}}})

    [(field, told)] = causes(on(main))
    assert field == "status.storedVersions[1]"
    assert "missing from spec.versions; v0 was previously a storage version" in told


def test_a_storage_version_that_is_there_twice_is_missed_once() -> None:
    answer = on(lambda api: api.post(DEFINITIONS, definition(versions=[V1, V1])))
    assert ("status.storedVersions", 'Invalid value: ["v1"]: must have the storage version v1') in causes(answer)


@pytest.mark.parametrize("part", ["", "/status"])
def test_an_update_names_the_revision_that_it_builds_on(part: str) -> None:
    async def main(api: Api) -> Answer:
        made = await established(api)
        del made["metadata"]["resourceVersion"]
        return await api.put(FOOS + part, made)

    assert [field for field, _ in causes(on(main))] == ["metadata.resourceVersion"]


def test_no_name_but_its_own_may_be_generated() -> None:
    body = definition()
    body["metadata"] = {"name": "foos.example.com", "generateName": "foo-"}
    told = 'Invalid value: "foo-": must be spec.names.plural+"."+spec.group'
    assert causes(on(lambda api: api.post(DEFINITIONS, body))) == [("metadata.generateName", told)]


def test_a_conversion_that_says_nothing_lacks_its_strategy() -> None:
    answer = on(lambda api: api.post(DEFINITIONS, definition(conversion={})))
    assert ("spec.conversion.strategy", "Required value") in causes(answer)


def test_the_first_deletion_only_marks() -> None:
    """Whatever the propagation policy: the objects are deleted by the definition's own finalizer."""

    async def main(api: Api) -> tuple[Answer, Answer]:
        await established(api)
        return await api.delete(FOOS, {"propagationPolicy": "Orphan"}), await api.get(FOOS)

    answer, then = on(main)
    assert answer.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(answer)["Terminating"] == ("True", "InstanceDeletionPending")
    assert then.status == 404


@pytest.mark.parametrize(("field", "name"), [("uid", "UID"), ("resourceVersion", "ResourceVersion")])
def test_a_deletion_of_another_definition_is_refused(field: str, name: str) -> None:
    async def main(api: Api) -> Answer:
        await established(api)
        return await api.delete(FOOS, {"preconditions": {field: "17"}})

    answer = on(main)
    assert answer.status == 409
    assert f"Precondition failed: {name} in precondition: 17, {name} in object meta: " in answer.message


def test_a_kind_of_elsewhere_is_no_kind_of_this_part_of_the_server() -> None:
    answer = on(lambda api: api.post(DEFINITIONS, {"kind": "Other", "apiVersion": "apiextensions.k8s.io/v1"}))
    assert '"k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:' in answer.message


def test_what_is_false_of_a_schema_is_not_stored() -> None:
    schema = {"type": "object", "x-kubernetes-int-or-string": False, "x-kubernetes-embedded-resource": False}
    body = definition(versions=[{**V1, "schema": {"openAPIV3Schema": schema}}])
    answer = on(lambda api: api.post(DEFINITIONS, body))
    assert answer.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {"type": "object"}


@pytest.mark.parametrize(
    "unsupported",
    [
        pytest.param({"patternProperties": {"^a": {"type": "string"}}}, id="at the root"),
        pytest.param({"properties": {"a": {"type": "array", "items": [{"type": "string"}]}}}, id="a list of items"),
        pytest.param({"anyOf": [{"dependencies": {"a": ["b"]}}]}, id="in a branch"),
    ],
)
def test_the_structure_is_judged_of_what_can_have_one(unsupported: Object) -> None:
    shapeless = {"properties": {"metadata": {"type": "array", "items": {"type": "string"}}}}
    told = [problem.field for problem in schema_problems({"type": "object", **shapeless}, "s")]
    assert "s.properties[metadata]" in told
    mixed = {"type": "object", **unsupported}
    mixed["properties"] = {**shapeless["properties"], **unsupported.get("properties", {})}
    told = [problem.field for problem in schema_problems(mixed, "s")]
    assert told
    assert "s.properties[metadata]" not in told


def test_a_definition_that_was_made_anew_meanwhile_is_not_taken_for_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the objects of the old one are deleted, which takes a while."""

    async def main(api: Api) -> Answer:
        await established(api)
        foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}}
        await api.made("/apis/example.com/v1/namespaces/default/foos", foo)
        delete_instance = CustomResources._delete_instance

        async def replace_and_delete(self: CustomResources, info: ResourceInfo, record: Record) -> None:
            monkeypatch.undo()
            await api.patch(FOOS, {"metadata": {"finalizers": None}})
            await api.made(DEFINITIONS, definition())
            await delete_instance(self, info, record)

        monkeypatch.setattr(CustomResources, "_delete_instance", replace_and_delete)
        await api.delete(FOOS)
        return await api.get(FOOS)

    answer = on(main)
    assert answer.status == 200, answer.text
    assert set(conditions(answer)) == {"NamesAccepted", "Established"}
