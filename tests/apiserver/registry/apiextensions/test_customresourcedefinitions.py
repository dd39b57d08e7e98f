"""Writes to CustomResourceDefinitions: names, conditions, stored versions, deletion.

As a kube-apiserver v1.20.2 answers, and where that has changed, upstream's code of v1.36.
"""

import base64
from typing import Any

import pytest
from tests.apiserver.api import Answer, Api, Object
from tests.tables import cases

from pilothouse.apiserver.apiextensions.controller import CustomResources
from pilothouse.apiserver.apiextensions.structural import validate_schema
from pilothouse.apiserver.registry.apiextensions.customresourcedefinitions.unions import decode_unions
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.bodies import DecodeError
from pilothouse.serving.certificates import create_authority
from pilothouse.storage import Record

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = DEFINITIONS + "/foos.example.com"
NAMES = {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"}
SCHEMA: Object = {"openAPIV3Schema": {"type": "object"}}
V1: Object = {"name": "v1", "served": True, "storage": True, "schema": SCHEMA}


def definition(**spec: Any) -> Object:
    fields = {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, **spec}
    return {"metadata": {"name": "foos.example.com"}, "spec": {"versions": [V1], **fields}}


def conditions(answer: Answer) -> dict[str, tuple[str, str]]:
    return {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in answer.body["status"]["conditions"]
    }


def causes(answer: Answer) -> list[tuple[str, str]]:
    assert answer.status == 422, answer.text
    return [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]


async def established(api: Api, **spec: Any) -> Object:
    await api.create(DEFINITIONS, definition(**spec))
    return (await api.get(FOOS)).body


async def test_accepted_names_written_by_clients_are_corrected(api: Api) -> None:
    obj = await established(api)
    obj["status"] = {"acceptedNames": {"plural": "bars", "kind": "Bar"}}
    answer = await api.put(FOOS + "/status", obj)
    stored = await api.get(FOOS)
    assert answer.body["status"]["acceptedNames"] == {"plural": "bars", "kind": "Bar"}
    assert answer.body["status"]["storedVersions"] == ["v1"], "defaulted"
    assert stored.body["status"]["acceptedNames"] == NAMES
    assert conditions(stored) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }


async def test_conditions_are_kept_if_names_are_correct(api: Api) -> None:
    created = await established(api)
    created["status"]["conditions"][0]["reason"] = "Why"
    await api.put(FOOS + "/status", created)
    assert conditions(await api.get(FOOS))["NamesAccepted"] == ("True", "Why")


async def test_accepted_names_are_validated(api: Api) -> None:
    created = await established(api)
    created["status"]["acceptedNames"] = {"plural": "", "kind": "Foo", "listKind": "Foo"}
    [(field, detail)] = causes(await api.put(FOOS + "/status", created))
    assert field == "status.acceptedNames.listKind"
    assert detail.endswith("kind and listKind may not be the same")


async def test_removed_stored_version_is_rejected_on_every_update(api: Api) -> None:
    created = await established(api)
    created["status"]["storedVersions"] = ["v1", "v0"]
    await api.put(FOOS + "/status", created)
    [(field, detail)] = causes(await api.patch(FOOS, {"metadata": {"labels": {"a": "b"}}}))
    assert field == "status.storedVersions[1]"
    assert "missing from spec.versions; v0 was previously a storage version" in detail


async def test_duplicate_storage_version_error(api: Api) -> None:
    answer = await api.post(DEFINITIONS, definition(versions=[V1, V1]))
    assert ("status.storedVersions", 'Invalid value: ["v1"]: must have the storage version v1') in causes(answer)


async def test_first_of_two_storage_versions_is_stored(api: Api) -> None:
    await established(api)
    assert ("status.storedVersions", 'Invalid value: ["v1"]: must have the storage version v2') in causes(
        await api.patch(FOOS, {"spec": {"versions": [V1, {**V1, "name": "v2"}]}})
    )


_WITH_DEFAULT = {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}}
_SELECTED = {"selectableFields": [{"jsonPath": ".a"}]}


@cases(
    "spec, expected",
    {
        "defaults with preserveUnknownFields": (
            {"versions": [{**V1, "schema": _WITH_DEFAULT}], "preserveUnknownFields": True},
            [("spec.preserveUnknownFields", "true: must be false in order to use defaults in the schema")],
        ),
        "conversion with preserveUnknownFields": (
            {"preserveUnknownFields": True, "conversion": {"strategy": "Webhook"}},
            [("spec.conversion.strategy", '"Webhook": must be None if spec.preserveUnknownFields is true')],
        ),
        "selectable fields without a schema": (
            {"versions": [{**V1, **_SELECTED, "schema": None}]},
            [("spec.selectableFields", '"": may only be set when validations.schema is included')],
        ),
        "selectable fields of one version with a shared schema": (
            {"versions": [{**V1, **_SELECTED}, {**V1, "name": "v2", "storage": False}]},
            [
                (
                    "spec.versions[0].selectableFields",
                    '"": may only be set when `version.schema.openAPIV3Schema` is not included',
                )
            ],
        ),
    },
)
async def test_incompatible_fields(api: Api, spec: Any, expected: list[tuple[str, str]]) -> None:
    all_causes = causes(await api.post(DEFINITIONS, definition(**spec)))
    assert [(field, f"Invalid value: {detail}") for field, detail in expected] == [
        cause for cause in all_causes if cause[0] in dict(expected)
    ][:1]


@pytest.mark.parametrize("subresource", ["", "/status"])
async def test_update_requires_a_resource_version(api: Api, subresource: str) -> None:
    created = await established(api)
    del created["metadata"]["resourceVersion"]
    assert [field for field, _ in causes(await api.put(FOOS + subresource, created))] == ["metadata.resourceVersion"]


async def test_generate_name_must_match_the_required_name(api: Api) -> None:
    body = definition()
    body["metadata"] = {"name": "foos.example.com", "generateName": "foo-"}
    detail = 'Invalid value: "foo-": must be spec.names.plural+"."+spec.group'
    assert causes(await api.post(DEFINITIONS, body)) == [("metadata.generateName", detail)]


SERVICE: Object = {"namespace": "n", "name": "s"}
CONFIG = "spec.conversion.webhookClientConfig"
REVIEWS = "spec.conversion.conversionReviewVersions"
EXACTLY_ONE = (CONFIG, "Required value: exactly one of url or service is required")


@cases(
    "conversion, expected",
    {
        "no client config": (
            {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
            [(CONFIG, "Required value: required when strategy is set to Webhook")]),
        "neither url nor service": (
            {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}},
            [EXACTLY_ONE]),
        "both url and service": (
            {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"url": "https://a", "service": SERVICE},
                    "conversionReviewVersions": ["v1"],
                },
            },
            [EXACTLY_ONE]),
        "invalid url": (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "http://a/?b#c"}, "conversionReviewVersions": ["v1"]},
            },
            [
                (f"{CONFIG}.url", "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: "
                 "https://host[/path]"),
                (f"{CONFIG}.url", 'Invalid value: "c": fragments are not permitted in the URL'),
                (f"{CONFIG}.url", 'Invalid value: "b": query parameters are not permitted in the URL'),
            ]),
        "invalid service": (
            {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"service": {"port": 70000, "path": "a//b"}},
                    "conversionReviewVersions": ["v1"],
                },
            },
            [
                (f"{CONFIG}.service.name", "Required value"),
                (f"{CONFIG}.service.namespace", "Required value"),
                (
                    f"{CONFIG}.service.port",
                    "Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
                ),
                (f"{CONFIG}.service.path", "Invalid value: \"a//b\": must start with a '/'"),
                (f"{CONFIG}.service.path", 'Invalid value: "a//b": segment[0] may not be empty'),
                (f"{CONFIG}.service.path", 'Invalid value: "a//b": segment[1] may not be empty'),
            ]),
        "no review versions": (
            {"strategy": "Webhook", "webhook": {"clientConfig": {"service": SERVICE}}},
            [(REVIEWS, "Required value")]),
        "unsupported review versions": (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"service": SERVICE}, "conversionReviewVersions": ["v0", "v0", "1v"]},
            },
            [
                (f"{REVIEWS}[1]", 'Invalid value: "v0": duplicate version'),
                (
                    f"{REVIEWS}[2]",
                    'Invalid value: "1v": a DNS-1035 label must consist of lower case alphanumeric characters or '
                    "'-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',"
                    "  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
                ),
                (REVIEWS, 'Invalid value: ["v0","v0","1v"]: must include at least one of v1, v1beta1'),
            ]),
        "webhook with strategy None": (
            {"strategy": "None", "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]}},
            [
                (CONFIG, "Forbidden: should not be set when strategy is not set to Webhook"),
                (REVIEWS, "Forbidden: should not be set when strategy is not set to Webhook"),
            ]),
        "unsupported strategy": (
            {"strategy": "NonExisting"},
            [
                (
                    "spec.conversion.strategy",
                    'Unsupported value: "NonExisting": supported values: "None", "Webhook"',
                )
            ]),
    },
)  # fmt: skip
async def test_conversion_validation(api: Api, conversion: Object, expected: list[tuple[str, str]]) -> None:
    """``validateCustomResourceConversion`` (v1.36)."""
    assert causes(await api.post(DEFINITIONS, definition(conversion=conversion))) == expected


def webhook(bundle: bytes | None = None, versions: tuple[str, ...] = ("v1",)) -> Object:
    config: Object = {"url": "https://a"}
    if bundle is not None:
        config["caBundle"] = base64.b64encode(bundle).decode()
    return {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": list(versions)}}


async def test_invalid_ca_bundle_is_not_established(api: Api) -> None:
    """As upstream since v1.31: a valid bundle may not become invalid."""
    await api.create(DEFINITIONS, definition(conversion=webhook(b"no bundle")))
    invalid = await api.get(FOOS)
    assert conditions(invalid) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("False", "InvalidCABundle"),
    }
    assert invalid.body["status"]["conditions"][1]["message"] == "The conversion webhook CABundle is invalid"
    certificate = create_authority("a", api.env.now()).certificate
    await api.patch(FOOS, {"spec": {"conversion": webhook(certificate)}})
    assert conditions(await api.get(FOOS))["Established"] == ("True", "InitialNamesAccepted")
    for bundle, detail in (
        (b"no bundle", "unable to parse bytes as PEM block"),
        (b" ", "unable to parse bytes as PEM block"),
        (b"-----BEGIN X-----\nAAAA\n-----END X-----\n", "no valid certificate authority data seen"),
        (b"-----BEGIN X-----\nAAAA\n-----END X-----\n\n", "unable to parse bytes as PEM block"),
        (b"-----BEGIN X-----\nAAAA\n-----END X-----", "no valid certificate authority data seen"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "failed to parse certificate: "),
    ):
        ((field, message),) = causes(await api.patch(FOOS, {"spec": {"conversion": webhook(bundle)}}))
        assert field == "spec.conversion.webhookClientConfig.caBundle"
        encoded = base64.b64encode(bundle).decode()
        assert message.startswith(f'Invalid value: "{encoded}": unable to load root certificates: {detail}')
    with_comment = b"# comment\n" + certificate + b"\nrest"
    assert (await api.patch(FOOS, {"spec": {"conversion": webhook(with_comment)}})).status == 200


async def test_empty_conversion_requires_a_strategy(api: Api) -> None:
    answer = await api.post(DEFINITIONS, definition(conversion={}))
    assert ("spec.conversion.strategy", "Required value") in causes(answer)


async def test_first_delete_only_sets_the_deletion_timestamp(api: Api) -> None:
    """With any propagation policy: the finalizer of the definition deletes the objects."""
    await established(api)
    answer = await api.delete(FOOS, {"propagationPolicy": "Orphan"})
    stored = await api.get(FOOS)
    assert answer.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(answer)["Terminating"] == ("True", "InstanceDeletionPending")
    assert stored.status == 404


@pytest.mark.parametrize(("field", "name"), [("uid", "UID"), ("resourceVersion", "ResourceVersion")])
async def test_delete_with_another_uid_is_rejected(api: Api, field: str, name: str) -> None:
    await established(api)
    answer = await api.delete(FOOS, {"preconditions": {field: "17"}})
    assert answer.status == 409
    assert f"Precondition failed: {name} in precondition: 17, {name} in object meta: " in answer.message


async def test_unknown_kind_error_names_the_apiextensions_server(api: Api) -> None:
    answer = await api.post(DEFINITIONS, {"kind": "Other", "apiVersion": "apiextensions.k8s.io/v1"})
    assert '"k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:' in answer.message


async def test_false_schema_fields_are_not_stored(api: Api) -> None:
    schema = {"type": "object", "x-kubernetes-int-or-string": False, "x-kubernetes-embedded-resource": False}
    body = definition(versions=[{**V1, "schema": {"openAPIV3Schema": schema}}])
    answer = await api.post(DEFINITIONS, body)
    assert answer.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {"type": "object"}


@cases(
    "unsupported",
    {
        "patternProperties at the root": {"patternProperties": {"^a": {"type": "string"}}},
        "list of item schemas": {"properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
        "dependencies in anyOf": {"anyOf": [{"dependencies": {"a": ["b"]}}]},
    },
)
def test_only_supported_schemas_are_validated_as_structural(unsupported: Object) -> None:
    metadata_schema = {"properties": {"metadata": {"type": "array", "items": {"type": "string"}}}}
    fields = [error.field for error in validate_schema({"type": "object", **metadata_schema}, "s")]
    assert "s.properties[metadata]" in fields
    mixed = {"type": "object", **unsupported}
    mixed["properties"] = {**metadata_schema["properties"], **unsupported.get("properties", {})}
    fields = [error.field for error in validate_schema(mixed, "s")]
    assert fields
    assert "s.properties[metadata]" not in fields


async def test_recreated_definition_is_not_finalized_for_its_predecessor(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definition is recreated while the objects of the old one are being deleted."""
    await established(api)
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}}
    await api.create("/apis/example.com/v1/namespaces/default/foos", foo)
    delete_instance = CustomResources._delete_instance

    async def replace_and_delete(self: CustomResources, info: ResourceInfo, record: Record) -> None:
        monkeypatch.undo()
        await api.patch(FOOS, {"metadata": {"finalizers": None}})
        await api.create(DEFINITIONS, definition())
        await delete_instance(self, info, record)

    monkeypatch.setattr(CustomResources, "_delete_instance", replace_and_delete)
    await api.delete(FOOS)
    answer = await api.get(FOOS)
    assert answer.status == 200, answer.text
    assert set(conditions(answer)) == {"NamesAccepted", "Established"}


SCHEMA_FIELD = "Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties"


@cases(
    "written, decoded",
    {
        "unset values are dropped, unknown fields too": (
            {"items": {"type": "array", "uniqueItems": False, "foo": 1, "items": {"type": "string", "title": ""}}},
            {"items": {"type": "array", "items": {"type": "string"}}},
        ),
        "null": (
            {"additionalProperties": {"type": "string", "maxLength": None}},
            {"additionalProperties": {"type": "string"}},
        ),
        "a boolean": ({"additionalProperties": False}, {"additionalProperties": False}),
        "no schema": ({"items": 5}, {}),
        "no schemas": ({"items": []}, {}),
        "several schemas": ({"items": [{"type": "string", "title": ""}]}, {"items": [{"type": "string"}]}),
        "neither a boolean nor a schema": ({"additionalProperties": 5}, "boolean or JSON schema expected"),
        "a wrong type": (
            {"items": {"type": 5}},
            f"json: cannot unmarshal number into {SCHEMA_FIELD}.items.type of type string",
        ),
        "a wrong type below": (
            {"items": {"type": "object", "additionalProperties": {"maxLength": "x"}}},
            f"json: cannot unmarshal string into {SCHEMA_FIELD}.items.additionalProperties.maxLength of type int64",
        ),
        "a property that is no schema": (
            {"items": {"properties": {"a": 5}}},
            f"json: cannot unmarshal number into {SCHEMA_FIELD}.items.properties of type v1.JSONSchemaProps",
        ),
    },
)
def test_schemas_of_items_and_values(written: Any, decoded: Any) -> None:
    """Recorded from v1.36.2."""
    schema = {"properties": {"a": written}}
    definition = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    result: Any = schema["properties"]["a"]
    try:
        decode_unions(definition)
    except DecodeError as error:
        result = str(error)
    assert result == decoded
