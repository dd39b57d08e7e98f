"""Values of upstream's internal Go types as errors show them, and how they have changed (kubernetes
``pkg/apis/*/types.go`` and apimachinery ``pkg/util/diff``, v1.36)."""

import re
from pathlib import Path
from typing import Any

from tests.apiserver.api import PODS, STRATEGIC, Api, pod
from tests.tables import cases

import pilothouse
from pilothouse.api import schema
from pilothouse.apiserver import internal_types
from pilothouse.apiserver.field_errors import internal_diff, internal_value

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_NOTHING_SELECTED = '{"MatchExpressions":null,"MatchFields":null}'


@cases(
    "type_, value, expected",
    {
        "a string is quoted": ("string", "a<b", '"a<b"'),
        "empty string": ("string", None, '""'),
        "a string of a type of its own is JSON": ("named", "a<b", '"a\\u003cb"'),
        "a pointer to a string is JSON": ("*string", "a<b", '"a\\u003cb"'),
        "a pointer to nothing": ("*string", None, "null"),
        "a pointer to zero": ("*int", 0, "0"),
        "missing number": ("int", None, "0"),
        "missing bytes": ("bytes", None, "null"),
        "missing time": ("time", None, "null"),
        "a pointer to no struct": ("*meta.LabelSelector", None, "null"),
        "missing struct": ("rbac.RoleRef", None, '{"APIGroup":"","Kind":"","Name":""}'),
        "missing map": ("{}string", None, "null"),
        "maps are in order": ("{}string", {"b": "1", "a": "\u2028"}, '{"a":"\\u2028","b":"1"}'),
        "quantities are canonical": ("{}quantity", {"storage": "1024Mi"}, '{"storage":"1Gi"}'),
        "JSON": ("any", {"b": [{"d": 1.0, "c": 1.5}], "a": True}, '{"a":true,"b":[{"c":1.5,"d":1}]}'),
        "structs in a list": ("[]core.NodeSelectorTerm", [{}], f"[{_NOTHING_SELECTED}]"),
        "types of the API machinery have names for JSON, and leave out what is empty": (
            "*meta.LabelSelector",
            {"matchExpressions": [{"operator": "In"}], "matchLabels": {"b": "", "a": ""}},
            '{"matchLabels":{"a":"","b":""},"matchExpressions":[{"key":"","operator":"In"}]}',
        ),
        "pointer to false is not empty": (
            "[]meta.OwnerReference",
            [{"uid": "u", "controller": False}],
            '[{"apiVersion":"","kind":"","name":"","uid":"u","controller":false}]',
        ),
        "a number or a name": (
            "core.ServicePort",
            {"protocol": "TCP", "port": 80, "targetPort": "web"},
            '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":"web","NodePort":0}',
        ),
        "fields in Go's order": ("core.EventSource", {"host": "h", "component": "c"}, '{"Component":"c","Host":"h"}'),
        "struct in struct": (
            "core.VolumeNodeAffinity",
            {"required": {"nodeSelectorTerms": [{}]}},
            f'{{"Required":{{"NodeSelectorTerms":[{_NOTHING_SELECTED}]}}}}',
        ),
        "embedded in the version, a field here": (
            "admissionregistration.NamedRuleWithOperations",
            {"resourceNames": ["n"], "operations": ["CREATE"], "resources": ["pods"]},
            '{"ResourceNames":["n"],"RuleWithOperations":{"Operations":["CREATE"],"APIGroups":null,"APIVersions":null,'
            '"Resources":["pods"],"Scope":null}}',
        ),
        "field that the versioned type nests deeper": (
            "apiextensions.CustomResourceConversion",
            {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "u"}}},
            '{"Strategy":"Webhook","WebhookClientConfig":{"URL":"u","Service":null,"CABundle":null},'
            '"ConversionReviewVersions":["v1"]}',
        ),
    },
)
def test_values(type_: str, value: Any, expected: str) -> None:
    assert internal_value(type_, value) == expected


@cases(
    "spec, part",
    {
        "hostNetwork": ({"hostNetwork": True}, '"SecurityContext":{"HostNetwork":true,"HostPID":false,'),
        "users of the host": ({"hostUsers": False}, '"ShareProcessNamespace":null,"HostUsers":false,'),
        "the account's older name": ({"serviceAccount": "a"}, '"ServiceAccountName":"a"'),
        "serviceAccountName precedes serviceAccount": (
            {"serviceAccount": "a", "serviceAccountName": "b"},
            '"ServiceAccountName":"b"',
        ),
        "embedded structs": (
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            '{"Name":"v","HostPath":null,"EmptyDir":{"Medium":"","SizeLimit":null},',
        ),
        "embedded structs of a probe": (
            {"containers": [{"livenessProbe": {"httpGet": {"port": 80}}}]},
            '"LivenessProbe":{"Exec":null,"HTTPGet":{"Path":"","Port":80,"Host":"","Scheme":"","HTTPHeaders":null},',
        ),
    },
)
def test_pod_specs(spec: dict[str, Any], part: str) -> None:
    assert part in internal_value("core.PodSpec", spec)


@cases(
    "schema, part",
    {
        "items with one schema": ({"items": {"type": "string"}}, '"Items":{"Schema":{"ID":"",'),
        "items with a list of schemas": (
            {"items": [{"type": "string"}]},
            '"Items":{"Schema":null,"JSONSchemas":[{"ID":"",',
        ),
        "additionalProperties true": (
            {"additionalProperties": True},
            '"AdditionalProperties":{"Allows":true,"Schema":null}',
        ),
        "names": ({"dependencies": {"a": ["b"]}}, '"Dependencies":{"a":{"Schema":null,"Property":["b"]}}'),
        "numbers": ({"maximum": 2.0, "minimum": 0.5}, '"Maximum":2,"ExclusiveMaximum":false,"Minimum":0.5'),
        "x-kubernetes-list-type": ({"x-kubernetes-list-type": "set"}, '"XListType":"set"'),
    },
)
def test_schemas(schema: dict[str, Any], part: str) -> None:
    assert part in internal_value("apiextensions.JSONSchemaProps", schema)


def test_one_line_of_many_has_changed() -> None:
    before = {"name": "d", "image": "busybox", "resources": {"limits": {"cpu": "1"}}}
    after = {**before, "resources": {"limits": {"cpu": "2", "memory": "<"}}}
    assert internal_diff("core.EphemeralContainer", before, {**after, "resources": {"limits": {"cpu": "2"}}}) == (
        "@@ -9,7 +9,7 @@\n"
        '  "Env": null,\n'
        '  "Resources": {\n'
        '   "Limits": {\n'
        '-   "cpu": "1"\n'
        '+   "cpu": "2"\n'
        "   },\n"
        '   "Requests": null,\n'
        '   "Claims": null\n'
    )


def test_two_hunks_where_much_lies_between() -> None:
    source = {"hostPath": {"path": "/x", "type": ""}}
    assert internal_diff("core.PersistentVolumeSource", source, {"csi": {"driver": "d"}}) == (
        "@@ -1,10 +1,7 @@\n"
        " {\n"
        '  "GCEPersistentDisk": null,\n'
        '  "AWSElasticBlockStore": null,\n'
        '- "HostPath": {\n'
        '-  "Path": "/x",\n'
        '-  "Type": ""\n'
        "- },\n"
        '+ "HostPath": null,\n'
        '  "Glusterfs": null,\n'
        '  "NFS": null,\n'
        '  "RBD": null,\n'
        "@@ -23,5 +20,16 @@\n"
        '  "ScaleIO": null,\n'
        '  "Local": null,\n'
        '  "StorageOS": null,\n'
        '- "CSI": null\n'
        '+ "CSI": {\n'
        '+  "Driver": "d",\n'
        '+  "VolumeHandle": "",\n'
        '+  "ReadOnly": false,\n'
        '+  "FSType": "",\n'
        '+  "VolumeAttributes": null,\n'
        '+  "ControllerPublishSecretRef": null,\n'
        '+  "NodeStageSecretRef": null,\n'
        '+  "NodePublishSecretRef": null,\n'
        '+  "ControllerExpandSecretRef": null,\n'
        '+  "NodeExpandSecretRef": null\n'
        "+ }\n"
        " }\n"
    )


async def test_pod_update_error_shows_immutable_changes(api: Api) -> None:
    """Not what may: of the changes below, the image is none."""
    change = {"containers": [{"name": "c", "image": "other", "workingDir": "/w"}]}
    await api.create(PODS, pod())
    answer = await api.patch(f"{PODS}/p", {"spec": change}, STRATEGIC)
    [cause] = answer.body["details"]["causes"]
    assert cause["message"].partition("\n")[2] == (
        "@@ -7,7 +7,7 @@\n"
        '    "Image": "nginx:1.25",\n'
        '    "Command": null,\n'
        '    "Args": null,\n'
        '-   "WorkingDir": "",\n'
        '+   "WorkingDir": "/w",\n'
        '    "Ports": null,\n'
        '    "EnvFrom": null,\n'
        '    "Env": null,\n'
    )


async def test_changed_default_pull_policy_is_shown(api: Api) -> None:
    """A PUT with the image ``latest`` and no policy gets a different default policy than the pod has."""
    created = await api.create(PODS, pod(containers=[{"name": "c", "image": "x:1"}]))
    container = created["spec"]["containers"][0]
    del container["imagePullPolicy"]
    container["image"] = "x:latest"
    assert (
        '-   "ImagePullPolicy": "IfNotPresent",\n+   "ImagePullPolicy": "Always",\n'
        in (await api.put(f"{PODS}/p", created)).message
    )


async def test_bound_claim_error_omits_requests(api: Api) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}}
    await api.create(CLAIMS, {"metadata": {"name": "d"}, "spec": spec})
    await api.patch(f"{CLAIMS}/d/status", {"status": {"phase": "Bound"}})
    change = {"volumeName": "w", "resources": {"requests": {"storage": "2Gi"}}}
    cause = (await api.patch(f"{CLAIMS}/d", {"spec": change})).body["details"]["causes"][0]
    assert '- "VolumeName": "v",\n+ "VolumeName": "w",\n' in cause["message"]
    assert "2Gi" not in cause["message"]


@cases(
    "spec, expected",
    {
        "named string type": ({"restartPolicy": "<"}, 'spec.restartPolicy: Unsupported value: "\\u003c"'),
        "a plain one": ({"hostname": "<\x01"}, 'spec.hostname: Invalid value: "<\\x01"'),
        "behind a pointer": (
            {"securityContext": {"windowsOptions": {"runAsUserName": "\x01"}}},
            'runAsUserName: Invalid value: "\\u0001"',
        ),
        "a choice": (
            {"tolerations": [{"key": "<", "operator": ">"}]},
            'tolerations[0].operator: Unsupported value: "\\u003e"',
        ),
    },
)
async def test_strings_are_quoted_or_json_as_their_types_are(api: Api, spec: dict[str, Any], expected: str) -> None:
    assert expected in (await api.post(PODS, pod(**spec))).message


# The table -----------------------------------------------------------------------------------------------------------

_USES = re.compile(r"""internal_(?:value|diff)\(\s*"([^"]+)"|": "([*\[\]{}]*[a-z]+\.[A-Z]\w+)"|SELECTOR = "([^"]+)\"""")


def test_every_shown_type_is_in_the_table() -> None:
    source = Path(pilothouse.__file__).parent / "apiserver"
    used = {
        next(filter(None, groups)).lstrip("*[]{}")
        for path in source.rglob("*.py")
        for groups in _USES.findall(path.read_text())
    }
    structs = {name for name in used if "." in name}
    assert len(structs) > 40
    assert structs <= internal_types.table().keys()


def test_table_has_no_dangling_types() -> None:
    table = internal_types.table()
    for struct in table:
        for field in internal_types.fields(struct):
            name = field.type.lstrip("*[]{}")
            assert "." not in name or name in table, (struct, field)
            assert "." in name or name in {*internal_types.SCALARS}, (struct, field)


_NOT_IN_THE_VERSION = {
    # Moved by the conversion.
    *("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers", "webhookClientConfig"),
    *("conversionReviewVersions", "validation"),
    # Types of removed versions.
    *("version", "subresources", "additionalPrinterColumns", "selectableFields", "templateGeneration", "rollbackTo"),
    "revision",
}


def test_field_names_match_the_api_version() -> None:
    """Field names equal those of the API schema, which has another source."""
    known = {name.rpartition(".")[2]: set[str]() for name in schema.load().names}
    for name in schema.load().names:
        known[name.rpartition(".")[2]] |= schema.load().definition(name).fields.keys()
    result = 0
    for struct in internal_types.table():
        names = known.get(struct.partition(".")[2])
        if names is None:
            continue  # parts of others in the version's JSON
        for field in internal_types.fields(struct):
            if field.source and not (field.source in names or field.source in _NOT_IN_THE_VERSION):
                raise AssertionError((struct, field))
            result += 1
    assert result > 1500


# Bounds --------------------------------------------------------------------------------------------------------------


def _containers(count: int, variables: int = 0) -> list[dict[str, Any]]:
    env = [{"name": f"E{item}", "value": "x"} for item in range(variables)]
    return [{"name": f"c{number}", "image": "x", "env": env} for number in range(count)]


def test_large_value_is_shown() -> None:
    assert len(internal_value("core.PodSpec", {"containers": _containers(100, 20)})) > 100_000


def test_excessively_large_value_is_not_shown() -> None:
    spec = {"containers": _containers(10_000)}
    assert internal_value("core.PodSpec", spec) == "(too large to be shown)"
    assert internal_diff("core.PodSpec", {}, spec) == "(what differs is too much to be shown)\n"


def test_diff_with_too_many_repeated_lines_is_not_shown() -> None:
    """Each as often as it still counts: that is the most work."""

    def spec(step: int) -> dict[str, Any]:
        return {"tolerations": [{"key": f"{position * step % 1009}"} for position in range(2500)]}

    assert internal_diff("core.PodSpec", spec(3), spec(7)) == "(what differs is too much to be shown)\n"


def test_diff_of_a_large_pod_is_shown() -> None:
    before = _containers(20, 20)
    after = [{**container, "workingDir": "/w"} for container in before]
    diff = internal_diff("core.PodSpec", {"containers": before}, {"containers": after})
    assert diff.count('+   "WorkingDir": "/w",\n') == 20
