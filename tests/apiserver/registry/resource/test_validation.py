"""Validation of ResourceClaims, DeviceClasses, ResourceSlices (kubernetes ``pkg/apis/resource/validation``, v1.36)."""

from typing import Any

import pytest
from tests.apiserver.api import Answer, Api, Object, errors_of, errors_of_create
from tests.apiserver.pod_bodies import LABEL
from tests.tables import cases

GROUP = "/apis/resource.k8s.io/v1/"
CLAIMS, TEMPLATES = GROUP + "namespaces/default/resourceclaims", GROUP + "namespaces/default/resourceclaimtemplates"
CLASSES, SLICES = GROUP + "deviceclasses", GROUP + "resourceslices"
EXACT_REQUEST: Object = {"deviceClassName": "gpus"}
REQUEST: Object = {"name": "a", "exactly": EXACT_REQUEST}
DRIVER = "d.example.com"
POOL: Object = {"name": "p", "resourceSliceCount": 1}
SLICE: Object = {"driver": DRIVER, "pool": POOL, "nodeName": "n"}
OPAQUE: Object = {"driver": DRIVER, "parameters": {"a": 1}}
RESULT: Object = {"request": "a", "driver": DRIVER, "pool": "p", "device": "x"}
CONSUMER: Object = {"resource": "pods", "name": "p", "uid": "u"}
REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
SHARE = "12345678-1234-1234-1234-123456789abc"


def _claim(*requests: Object, **fields: Any) -> Object:
    return {"devices": {"requests": list(requests), **fields}}


def _exact_request(**fields: Any) -> Object:
    return _claim({"name": "a", "exactly": {**EXACT_REQUEST, **fields}})


@cases(
    "spec, expected",
    {
        "request without name": (
            _claim({"name": "", "exactly": EXACT_REQUEST}),
            [f'requests[0].name: Invalid value: "": {LABEL}'],
        ),
        "duplicate requests": (_claim(REQUEST, REQUEST), ['requests[1]: Duplicate value: "a"']),
        "too many requests": (
            _claim(*({"name": f"n{number}", "exactly": EXACT_REQUEST} for number in range(33))),
            ["requests: Too many: 33: must have at most 32 items"],
        ),
        "neither exactly nor firstAvailable": (
            _claim({"name": "a"}),
            ["requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"],
        ),
        "exactly and firstAvailable": (
            _claim({**REQUEST, "firstAvailable": [{"name": "b", **EXACT_REQUEST}]}),
            [
                "requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but "
                "multiple fields are set"
            ],
        ),
        "count with allocationMode All": (
            _exact_request(deviceClassName="", allocationMode="All", count=2),
            [
                "requests[0].exactly.deviceClassName: Required value",
                "requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
            ],
        ),
        "negative count": (
            _exact_request(count=-1),
            ["requests[0].exactly.count: Invalid value: -1: must be greater than zero"],
        ),
        "unsupported allocationMode": (
            _exact_request(allocationMode="Odd"),
            [
                'requests[0].exactly.allocationMode: Unsupported value: "Odd": supported values: "All", "ExactCount"',
            ],
        ),
        "tolerations": (
            _exact_request(
                tolerations=[
                    {"key": "k", "operator": "Exists", "value": "v", "effect": "Odd"},
                    {"operator": "Odd"},
                ]
            ),
            [
                'requests[0].exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`',
                'requests[0].exactly.tolerations[0].effect: Unsupported value: "Odd": supported values: "NoExecute", '
                '"NoSchedule", "None"',
                'requests[0].exactly.tolerations[1].operator: Unsupported value: "Odd": supported values: "Equal", '
                '"Exists"',
            ],
        ),
        "selectors": (
            _exact_request(selectors=[{}, {"cel": {"expression": "x" * 10241}}, {"cel": {"expression": "1"}}]),
            [
                "requests[0].exactly.selectors[0].cel: Required value",
                "requests[0].exactly.selectors[1].cel.expression: Too long: may not be more than 10240 bytes",
                'requests[0].exactly.selectors[2].cel.expression: Invalid value: "1": must evaluate to bool or the '
                "unknown type, not int",
            ],
        ),
        "firstAvailable": (
            _claim(
                {"name": "a", "firstAvailable": [{"name": "b", **EXACT_REQUEST}, {"name": "b", "deviceClassName": "A"}]}
            ),
            [
                'requests[0].firstAvailable[1].deviceClassName: Invalid value: "A": a lowercase RFC 1123 subdomain '
                "must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
                "alphanumeric character (e.g. 'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                'requests[0].firstAvailable[1]: Duplicate value: "b"',
            ],
        ),
        "constraints": (
            _claim(
                REQUEST,
                constraints=[
                    {"requests": ["a", "a"], "matchAttribute": "numa"},
                    {"requests": ["b", "a/b/c"], "distinctAttribute": f"{DRIVER}/numa"},
                    {},
                ],
            ),
            [
                'constraints[0].requests[1]: Duplicate value: "a"',
                'constraints[0].matchAttribute: Invalid value: "numa": a fully qualified name must be a domain and a '
                "name separated by a slash",
                f'constraints[1].requests[0]: Invalid value: "b": {REFERENCE}',
                f'constraints[1].requests[1]: Invalid value: "a/b/c": {REFERENCE}',
                'constraints[2]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, '
                "but multiple fields are set",
            ],
        ),
        "configuration": (
            _claim(
                REQUEST,
                config=[
                    {},
                    {"opaque": {**OPAQUE, "driver": "d" * 64}},
                    {"requests": ["b"], "opaque": {**OPAQUE, "parameters": {"a": "x" * 10240}}},
                ],
            ),
            [
                "config[0].opaque: Required value",
                "config[1].opaque.driver: Too long: may not be more than 63 bytes",
                f'config[2].requests[0]: Invalid value: "b": {REFERENCE}',
                "config[2].opaque.parameters: Too long: may not be more than 10240 bytes",
            ],
        ),
    },
)
async def test_claims(api: Api, spec: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, CLAIMS, spec=spec) == [f"spec.devices.{error}" for error in expected]


async def test_claim_templates(api: Api) -> None:
    spec = {"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": _claim({"name": "a"})}
    assert await errors_of_create(api, TEMPLATES, spec=spec) == [
        "spec.metadata.name: Forbidden: cannot be set",
        "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "{DRIVER}"',
        'device.attributes["d"].model',
        'device.attributes["d"].version.isGreaterThan(semver("1.0.0"))',
        'device.attributes["d"].services.split("example").size() >= 2',
        'device.attributes["d"].services.matches("[^a]?sym")',
        'device.attributes.exists_one(x, x == "d")',
        '"name" in device.capacity["d"] && device.capacity["d"].name.isGreaterThan(quantity("1Ki"))',
        'cel.bind(dra, device.attributes["d"], dra.name)',
        "device.allowMultipleAllocations",
    ],
)
async def test_accepted_selectors(api: Api, expression: str) -> None:
    spec = _exact_request(selectors=[{"cel": {"expression": expression}}])
    answer = await api.post(CLAIMS, {"metadata": {"name": "x"}, "spec": spec})
    assert answer.status == 201, answer.text


@cases(
    "expression, detail",
    {
        "undeclared field of device": ("device.odd", "Invalid value"),
        "too complex": (
            "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, "
            "a + b + c + d != ''))))",
            "Forbidden: too complex, exceeds cost limit",
        ),
    },
)
async def test_rejected_selectors(api: Api, expression: str, detail: str) -> None:
    (error,) = await errors_of_create(api, CLASSES, spec={"selectors": [{"cel": {"expression": expression}}]})
    assert error.startswith("spec.selectors[0].cel.expression: ")
    assert detail in error


async def test_classes(api: Api) -> None:
    assert await errors_of_create(
        api, CLASSES, spec={"config": [{"opaque": {"driver": DRIVER}}], "extendedResourceName": "cpu"}
    ) == [
        "spec.config[0].opaque.parameters: Required value",
        'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name',
    ]


def _device(**device: Any) -> Object:
    return {**SLICE, "devices": [{"name": "x", **device}]}


def _capacity(**policy: Any) -> Object:
    return _device(allowMultipleAllocations=True, capacity={"m": {"value": "10", "requestPolicy": policy}})


POLICY = "devices[0].capacity[m].requestPolicy"


@cases(
    "spec, expected",
    {
        "missing driver and node selection": (
            {"driver": "", "pool": {"name": "p//q", "generation": -1}, "nodeName": ""},
            [
                "driver: Required value",
                "resourceSliceCount",
                "pool.generation: Invalid value: -1: must be greater than or equal to zero",
                'nodeName: Invalid value: "": must be either unset or set to a non-empty string',
                "Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is "
                "required",
            ],
        ),
        "two node selections": (
            {**SLICE, "allNodes": True, "perDeviceNodeSelection": False},
            [
                "perDeviceNodeSelection: Invalid value: false: must be either unset or set to true",
                'Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, '
                "`perDeviceNodeSelection` is required, but multiple fields are set",
            ],
        ),
        "two node selector terms": (
            {
                **SLICE,
                "nodeName": None,
                "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}]},
            },
            [
                'nodeSelector.nodeSelectorTerms: Invalid value: [{"MatchExpressions":[{"Key":"a","Operator":"Exists",'
                '"Values":null}],"MatchFields":null},{"MatchExpressions":null,"MatchFields":null}]: must have exactly '
                "one node selector term"
            ],
        ),
        "names of devices": (
            {**SLICE, "devices": [{"name": "x"}, {"name": "x"}, {"name": "A"}]},
            [f'devices[2].name: Invalid value: "A": {LABEL}', 'devices[1]: Duplicate value: "x"'],
        ),
        "too many devices": (
            {**SLICE, "devices": [{"name": f"n{number}"} for number in range(129)]},
            ["devices: Too many: 129: must have at most 128 items"],
        ),
        "too many devices with taints": (
            {
                **SLICE,
                "devices": [{"name": f"n{number}", "taints": [{"key": "k", "effect": "None"}]} for number in range(65)],
            },
            ["devices: Too many: 65: must have at most 64 items"],
        ),
        "invalid attributes": (
            _device(
                attributes={
                    "a-b": {"int": 1},
                    f"{DRIVER}/": {"string": "x" * 65},
                    "v": {"version": "1.0"},
                    "none": {},
                    "two": {"int": 1, "bool": True},
                    "list": {"ints": [1]},
                }
            ),
            [
                'devices[0].attributes: Invalid value: "a-b": a valid C identifier must start with alphabetic '
                "character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or "
                "'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
                'devices[0].attributes: Invalid value: "": the name must not be empty',
                f"devices[0].attributes[{DRIVER}/].string: Too long: may not be more than 64 bytes",
                'devices[0].attributes[v].version: Invalid value: "1.0": must be a string compatible with semver.org '
                "spec 2.0.0",
                'devices[0].attributes[none]: Invalid value: "": exactly one value must be specified',
                'devices[0].attributes[two]: Invalid value: {"IntValue":1,"BoolValue":true,"StringValue":null,'
                '"VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}: '
                "exactly one value must be specified",
                'devices[0].attributes[list]: Invalid value: "": exactly one value must be specified',
            ],
        ),
        "too many attributes": (
            _device(attributes={f"n{number}": {"int": number} for number in range(33)}),
            ["devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32"],
        ),
        "request policy without multiple allocations": (
            _device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}),
            ["devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"],
        ),
        "validValues without default": (
            _capacity(validValues=["2", "1", "11", "1"]),
            [f"{POLICY}.default: Required value: required when validValues is defined"],
        ),
        "validValues": (
            _capacity(default="3", validValues=["2", "1", "11", "1"]),
            [
                f'{POLICY}.validValues[1]: Invalid value: "1": values must be sorted in ascending order',
                f'{POLICY}.validValues[3]: Invalid value: "1": values must be sorted in ascending order',
                f'{POLICY}.validValues[2]: Invalid value: "11": option is larger than capacity value: 10',
                f'{POLICY}.validValues[3]: Duplicate value: "1"',
                f'{POLICY}.validValues: Invalid value: "3": default value is not valid according to the requestPolicy',
            ],
        ),
        "validRange": (
            _capacity(default="9", validRange={"min": "2", "max": "8", "step": "9"}),
            [
                f'{POLICY}.validRange.default: Invalid value: "9": default is more than max: 8',
                f'{POLICY}.validRange.step: Invalid value: "9": one step 11 is larger than capacity value: 10',
                f'{POLICY}.validRange.step: Invalid value: "9": value is not a multiple of a given step (9) from (2)',
                f'{POLICY}.validRange.step: Invalid value: "8": value is not a multiple of a given step (9) from (2)',
            ],
        ),
        "taints": (
            _device(taints=[{"key": "", "value": "a b"}]),
            ["taints[0].key", "taints[0].key", "taints[0].value", "devices[0].taints[0].effect: Required value"],
        ),
        "node of a device without perDeviceNodeSelection": (
            _device(nodeName="n"),
            [
                "devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            ],
        ),
        "perDeviceNodeSelection without node": (
            {"driver": DRIVER, "pool": POOL, "perDeviceNodeSelection": True, "devices": [{"name": "x"}]},
            [
                "devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            ],
        ),
        "binding conditions": (
            _device(bindingConditions=["a", "a"], bindingFailureConditions=["a"]),
            [
                'devices[0].bindingConditions[1]: Duplicate value: "a"',
                'devices[0].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap '
                "with bindingConditions",
            ],
        ),
        "binding conditions without failure conditions": (
            _device(bindingConditions=["a"]),
            [
                "devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to "
                "use bindingConditions"
            ],
        ),
        "counters": (
            {**SLICE, "devices": [{"name": "x", "consumesCounters": [{}]}], "sharedCounters": [{"name": "c"}]},
            [
                'Invalid value: "": only one of `sharedCounters` or `devices` is allowed',
                "devices[0].consumesCounters[0].counterSet: Required value",
                "devices[0].consumesCounters[0].counters: Required value",
                "sharedCounters[0].counters: Required value",
            ],
        ),
    },
)
async def test_slices(api: Api, spec: Object, expected: list[str]) -> None:
    errors = await errors_of_create(
        api, SLICES, spec={name: value for name, value in spec.items() if value is not None}
    )
    assert len(errors) >= len(expected)
    for expected_error in expected:
        assert any(error.endswith(expected_error) or expected_error in error for error in errors), (
            expected_error,
            errors,
        )
    full_errors = [expected_error for expected_error in expected if ": " in expected_error]
    assert [error for error in errors if any(error.endswith(expected_error) for expected_error in full_errors)] == [
        error for expected_error in full_errors for error in errors if error.endswith(expected_error)
    ]


async def test_immutable_slice_fields(api: Api) -> None:
    await api.create(SLICES, {"metadata": {"name": "x"}, "spec": SLICE})
    assert errors_of(
        await api.patch(SLICES + "/x", {"spec": {"driver": "e", "nodeName": "m", "pool": {"name": "q"}}})
    ) == [
        'spec.pool.name: Invalid value: "q": field is immutable',
        'spec.driver: Invalid value: "e": field is immutable',
        'spec.nodeName: Invalid value: "m": field is immutable',
    ]


async def test_disabled_fields_are_dropped(api: Api) -> None:
    device = {"attributes": {"a": {"int": 1, "ints": [1]}}, "nodeAllocatableResourceMappings": {"cpu": {}}}
    assert (await api.create(SLICES, {"metadata": {"name": "x"}, "spec": _device(**device)}))["spec"]["devices"] == [
        {"name": "x", "attributes": {"a": {"int": 1}}}
    ]


async def _with_status(api: Api, *statuses: Object, **metadata: Any) -> Answer:
    """Create a claim and write these statuses; returns the last answer."""
    claim = {"metadata": {"name": "x", **metadata}, "spec": _claim(REQUEST)}
    await api.create(CLAIMS, claim)
    for status in statuses:
        answer = await api.patch(CLAIMS + "/x/status", {"status": status})
    return answer


def _allocation(*results: Object, **fields: Any) -> Object:
    return {"devices": {"results": list(results), **fields}}


CONDITION = {"type": "A", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@cases(
    "status, expected",
    {
        "reservedFor without allocation": (
            {"reservedFor": [CONSUMER]},
            ["reservedFor: Forbidden: may not be specified when `allocated` is not set"],
        ),
        "invalid reservedFor": (
            {"allocation": _allocation(RESULT), "reservedFor": [{"uid": "u"}, CONSUMER]},
            [
                "reservedFor[0].resource: Required value",
                "reservedFor[0].name: Required value",
                'reservedFor[1]: Duplicate value: "u"',
            ],
        ),
        "invalid allocation": (
            {
                "allocation": _allocation(
                    {**RESULT, "request": "b", "driver": "d" * 64, "shareID": "x"},
                    config=[{"source": "Odd", "opaque": OPAQUE}, {"opaque": OPAQUE}],
                )
            },
            [
                f'allocation.devices.results[0].request: Invalid value: "b": {REFERENCE}',
                "allocation.devices.results[0].driver: Too long: may not be more than 63 bytes",
                'allocation.devices.results[0].shareID: Invalid value: "x": error validating uid: invalid UUID length: '
                "1",
                'allocation.devices.config[0].source: Unsupported value: "Odd": supported values: "FromClaim", '
                '"FromClass"',
                "allocation.devices.config[1].source: Required value",
            ],
        ),
        "invalid device statuses": (
            {
                "allocation": _allocation(RESULT),
                "devices": [
                    {**RESULT, "device": "y", "shareID": SHARE.upper()},
                    {**RESULT, "conditions": [CONDITION, CONDITION], "data": {"a": "x" * 10240}},
                    {**RESULT, "networkData": {"interfaceName": "x" * 257, "ips": ["10.0.0.1", "2001:DB8::1/64"]}},
                ],
            },
            [
                f'devices[0].shareID: Invalid value: "{SHARE.upper()}": uid must be in RFC 4122 normalized form, '
                "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters",
                f'devices[0]: Invalid value: {{"Driver":"{DRIVER}","Pool":"p","Device":"y","ShareID":"'
                f'{SHARE.upper()}"}}: must be an allocated device in the claim',
                'devices[1].conditions[1].type: Duplicate value: "A"',
                "devices[1].data: Too long: may not be more than 10240 bytes",
                "devices[2].networkData.interfaceName: Too long: may not be more than 256 bytes",
                'devices[2].networkData.ips[0]: Invalid value: "10.0.0.1": must be a valid address in CIDR form, (e.g. '
                "10.9.8.7/24 or 2001:db8::1/64)",
                'devices[2].networkData.ips[1]: Invalid value: "2001:DB8::1/64": must be in canonical form '
                '("2001:db8::1/64")',
                f'devices[2]: Duplicate value: {{"Driver":"{DRIVER}","Pool":"p","Device":"x","ShareID":""}}',
            ],
        ),
    },
)
async def test_claim_status(api: Api, status: Object, expected: list[str]) -> None:
    for device in status.get("devices") or ():
        device.pop("request", None)
    assert errors_of(await _with_status(api, status)) == [f"status.{error}" for error in expected]


async def test_allocation_is_immutable(api: Api) -> None:
    first, second = _allocation(RESULT), _allocation({**RESULT, "device": "y"})
    (error,) = errors_of(await _with_status(api, {"allocation": first}, {"allocation": second}))
    assert error.startswith("status.allocation: Invalid value: ")
    assert error.endswith(": field is immutable")


async def test_terminating_claim_gets_no_new_reservations(api: Api) -> None:
    await _with_status(api, {"allocation": _allocation(RESULT)}, finalizers=["example.com/x"])
    await api.delete(CLAIMS + "/x")
    assert errors_of(await api.patch(CLAIMS + "/x/status", {"status": {"reservedFor": [CONSUMER]}})) == [
        "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or "
        "`deletionTimestamp` are set"
    ]


async def test_device_status_is_removed_with_the_allocation(api: Api) -> None:
    device = {name: value for name, value in RESULT.items() if name != "request"}
    answer = await _with_status(api, {"allocation": _allocation(RESULT)}, {"devices": [device]}, {"allocation": None})
    assert answer.status == 200, answer.text
    assert answer.body["status"] == {}


ADMIN = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
)


@cases(
    "path, spec",
    {
        "claims": (CLAIMS, _exact_request(adminAccess=True)),
        "templates, with the path of claims": (TEMPLATES, {"spec": _exact_request(adminAccess=True)}),
    },
)
async def test_admin_access_requires_the_namespace_label(api: Api, path: str, spec: Object) -> None:
    body = {"metadata": {"name": "x"}, "spec": spec}
    assert errors_of(await api.post(path, body)) == [f"spec.devices.requests[0].adminAccess: Forbidden: {ADMIN}"]
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await api.create("/api/v1/namespaces", {"metadata": {"name": "admins", "labels": labels}})
    admin_path = path.replace("/default/", "/admins/")
    assert (await api.post(admin_path, body)).status == 201


async def test_admin_access_allocation_requires_the_namespace_label(api: Api) -> None:
    allocation = _allocation({**RESULT, "adminAccess": True})
    assert errors_of(await _with_status(api, {"allocation": allocation})) == [
        f"status.allocation.devices.results[0].adminAccess: Forbidden: {ADMIN}"
    ]
