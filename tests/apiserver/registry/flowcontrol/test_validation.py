"""Validation of FlowSchemas and PriorityLevelConfigurations (kubernetes ``pkg/apis/flowcontrol/validation``, v1.36)."""

import asyncio

from tests.apiserver.api import Answer, Api, Object, errors_of, errors_of_create
from tests.apiserver.pod_bodies import LABEL
from tests.tables import cases

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1/"
SCHEMAS, LEVELS = GROUP + "flowschemas", GROUP + "prioritylevelconfigurations"
LEVEL: Object = {"priorityLevelConfiguration": {"name": "l"}}
USER = {"kind": "User", "user": {"name": "u"}}
ALL_RESOURCES = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}


@cases(
    "spec, expected",
    {
        "missing priority level": (
            {"matchingPrecedence": -1, "priorityLevelConfiguration": {}, "distinguisherMethod": {"type": "Odd"}},
            [
                "matchingPrecedence: Invalid value: -1: must be a positive value",
                'distinguisherMethod.type: Unsupported value: {"Type":"Odd"}: supported values: "ByNamespace", '
                '"ByUser"',
                "priorityLevelConfiguration.name: Required value: must reference a priority level",
            ],
        ),
        "empty rule": (
            {**LEVEL, "matchingPrecedence": 10001, "rules": [{}]},
            [
                "matchingPrecedence: Invalid value: 10001: must not be greater than 10000",
                "rules[0].subjects: Required value: subjects must contain at least one value",
                "rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ],
        ),
        "matching precedence 1": (
            {**LEVEL, "matchingPrecedence": 1},
            ["matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"],
        ),
        "subjects": (
            {
                **LEVEL,
                "rules": [
                    {
                        "subjects": [
                            {"kind": "Odd"},
                            {"kind": "User", "group": {"name": "g"}},
                            {"kind": "Group", "group": {"name": ""}},
                            {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": ""}},
                        ],
                        "resourceRules": [ALL_RESOURCES],
                    }
                ],
            },
            [
                'rules[0].subjects[0].kind: Unsupported value: "Odd": supported values: "Group", "ServiceAccount", '
                '"User"',
                "rules[0].subjects[1].user: Required value: user is required when subject kind is 'User'",
                "rules[0].subjects[1].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                "rules[0].subjects[2].group.name: Required value",
                "rules[0].subjects[3].serviceAccount.namespace: Required value: must specify namespace for service "
                "account",
            ],
        ),
        "rules": (
            {
                **LEVEL,
                "rules": [
                    {
                        "subjects": [USER],
                        "resourceRules": [
                            {"verbs": ["*", "get"], "apiGroups": ["*", "a"], "namespaces": ["A"]},
                            {"verbs": ["read"], "apiGroups": ["a"], "resources": ["a"]},
                        ],
                        "nonResourceRules": [
                            {"verbs": ["get"], "nonResourceURLs": ["a", "/a b", "/a//b", "/a*", "/a/*", "/"]},
                            {"verbs": [], "nonResourceURLs": ["*", "/a"]},
                        ],
                    }
                ],
            },
            [
                'rules[0].resourceRules[0].verbs: Invalid value: ["*","get"]: if \'*\' is present, must not specify '
                "other verbs",
                'rules[0].resourceRules[0].apiGroups: Invalid value: ["*","a"]: if \'*\' is present, must not specify '
                "other api groups",
                "rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource",
                "rules[0].resourceRules[0].namespaces[0]: Invalid value: \"A\": each member of this list must be '*' "
                f"or a DNS-1123 label; {LABEL}",
                'rules[0].resourceRules[1].verbs: Unsupported value: ["read"]: supported values: "create", "delete", '
                '"deletecollection", "get", "list", "patch", "proxy", "update", "watch"',
                "rules[0].resourceRules[1].namespaces: Required value: resource rules that are not cluster scoped must "
                "supply at least one namespace",
                'rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a": must start with slash',
                'rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "/a b": must not contain white-space',
                'rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: "/a//b": must not contain double '
                "slash",
                'rules[0].nonResourceRules[0].nonResourceURLs[3]: Invalid value: "/a*": wildcard can only do suffix '
                "matching",
                "rules[0].nonResourceRules[1].verbs: Required value: verbs must contain at least one value",
                'rules[0].nonResourceRules[1].nonResourceURLs: Invalid value: ["*","/a"]: if \'*\' is present, must '
                "not specify other non-resource URLs",
            ],
        ),
    },
)
async def test_flow_schemas(api: Api, spec: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, SCHEMAS, spec=spec) == [f"spec.{error}" for error in expected]


def _limited(**limited: object) -> Object:
    return {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}, **limited}}


def _queued(**queuing: int) -> Object:
    return _limited(limitResponse={"type": "Queue", "queuing": queuing})


@cases(
    "spec, expected",
    {
        "no type": ({}, ['type: Unsupported value: "": supported values: "Exempt", "Limited"']),
        "Exempt with another name": (
            {"type": "Exempt"},
            ["type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"],
        ),
        "Limited without limits": (
            {"type": "Limited", "exempt": {}},
            [
                "exempt: Forbidden: must be nil if the type is Limited",
                "limited: Required value: must not be empty when type is Limited",
            ],
        ),
        "shares": (
            _limited(nominalConcurrencyShares=-1, lendablePercent=101, borrowingLimitPercent=-1),
            [
                "limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
                "limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
            ],
        ),
        "queuing with Reject": (
            _limited(limitResponse={"type": "Reject", "queuing": {}}),
            ["limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"],
        ),
        "limit response without type": (
            _limited(limitResponse={}),
            ['limited.limitResponse.type: Unsupported value: "": supported values: "Queue", "Reject"'],
        ),
        "queues": (
            _queued(queues=10000001, handSize=-1, queueLengthLimit=-1),
            [
                "limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
                "limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000",
                "limited.limitResponse.queuing.handSize: Invalid value: -1: must be positive",
            ],
        ),
        "hand size above queues": (
            _queued(queues=2, handSize=3),
            ["limited.limitResponse.queuing.handSize: Invalid value: 3: should not be greater than queues (2)"],
        ),
        "too many entropy bits": (
            _queued(queues=512, handSize=7),
            [
                "limited.limitResponse.queuing.handSize: Invalid value: 7: required entropy bits of deckSize 512 and "
                "handSize 7 should not be greater than 60"
            ],
        ),
    },
)
async def test_priority_levels(api: Api, spec: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, LEVELS, spec=spec) == [f"spec.{error}" for error in expected]


async def patched_after_start(api: Api, path: str, change: Object) -> Answer:
    """Patch one of the bootstrap objects, which exist shortly after the server has started."""
    running = asyncio.ensure_future(api.server.run())
    await asyncio.sleep(5)
    try:
        return await api.patch(path, {"spec": change})
    finally:
        running.cancel()


@cases(
    "path, change, detail",
    {
        "priority level catch-all": (
            LEVELS + "/catch-all",
            {"limited": {"nominalConcurrencyShares": 9}},
            "spec of 'catch-all' must equal the fixed value",
        ),
        "flow schema exempt": (SCHEMAS + "/exempt", {"rules": []}, "spec of 'exempt' must equal the fixed value"),
    },
)
async def test_mandatory_objects_cannot_change(api: Api, path: str, change: Object, detail: str) -> None:
    (error,) = errors_of(await patched_after_start(api, path, change))
    assert error.startswith("spec: Invalid value: {")
    assert error.endswith(detail)


async def test_exempt_level_shares_can_change(api: Api) -> None:
    change = {"exempt": {"lendablePercent": 5}}
    assert (await patched_after_start(api, LEVELS + "/exempt", change)).status == 200


async def test_condition_types_are_unique(api: Api) -> None:
    await api.create(SCHEMAS, {"metadata": {"name": "x"}, "spec": LEVEL})
    conditions = [{"type": "a"}, {"type": "a"}, {}]
    assert errors_of(await api.patch(SCHEMAS + "/x/status", {"status": {"conditions": conditions}})) == [
        'status.conditions[1].type: Duplicate value: "a"',
        "status.conditions[2].type: Required value",
    ]
