"""What jobs and CronJobs may be told to do (kubernetes ``pkg/apis/batch/validation/validation_test.go``, v1.36)."""

from typing import Any

import pytest
from tests.apiserver.api import Answer, Api, Object

from pilothouse.apiserver.registry.batch.jobs.spec_validation import validate_job_spec

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
TEMPLATE: Object = {
    "spec": {
        "containers": [{"name": "c", "image": "x", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}],
        "restartPolicy": "Never",
        "dnsPolicy": "ClusterFirst",
    }
}
ON_FAILURE: Object = {"spec": {**TEMPLATE["spec"], "restartPolicy": "OnFailure"}}
INDEXED: Object = {"completionMode": "Indexed", "completions": 5, "parallelism": 1}
EXIT = {"operator": "In", "values": [1]}


def _told(**spec: Any) -> list[str]:
    return [f"{each.field}: {each.text}" for each in validate_job_spec({"template": TEMPLATE, **spec}, "spec")]


def _failing(*rules: Object) -> Object:
    return {"podFailurePolicy": {"rules": list(rules)}}


def _enough(*rules: Object) -> Object:
    return {**INDEXED, "successPolicy": {"rules": list(rules)}}


RULE = "spec.podFailurePolicy.rules[0]"
ENOUGH = "spec.successPolicy.rules"
MANY = "when completions are above 100000 and used with backoff limit per index"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({**INDEXED, "parallelism": 100_000}, id="many pods"),
        pytest.param(
            {
                **INDEXED,
                "completions": 1_000_000_000,
                "parallelism": 10_000,
                "maxFailedIndexes": 10_000,
                "backoffLimitPerIndex": 1,
            },
            id="very many indexes",
        ),
        pytest.param({"managedBy": "example.com/foo"}, id="another manager"),
        pytest.param(
            _failing(
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0, 1, 2], "containerName": "c"}},
            ),
            id="what counts as a failure",
        ),
        pytest.param(
            _enough({"succeededIndexes": "0,2-4", "succeededCount": 4}, {"succeededCount": 5}), id="what is enough"
        ),
    ],
)
def test_what_jobs_may_be(spec: Object) -> None:
    assert _told(**spec) == []


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"managedBy": ""}, ["spec.managedBy: Required value"], id="a manager has a name"),
        pytest.param(
            {"managedBy": "foo"},
            ['spec.managedBy: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")'],
            id="a manager has a domain",
        ),
        pytest.param(
            {"managedBy": f"example.com/{'x' * 60}"},
            ["spec.managedBy: Too long: may not be more than 63 bytes"],
            id="names of managers are short",
        ),
        pytest.param(
            {"managedBy": "example.com/a b"},
            [
                'spec.managedBy: Invalid value: "a b": Invalid path (regex used for validation is '
                "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
            ],
            id="names of managers are paths",
        ),
        pytest.param(
            {"completionMode": "Other", "backoffLimitPerIndex": 1},
            ['spec.completionMode: Unsupported value: "Other": supported values: "NonIndexed", "Indexed"'],
            id="there are two modes",
        ),
        pytest.param(
            {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
            [
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ],
            id="limits of indexes need indexes",
        ),
        pytest.param(
            {"completionMode": "Indexed", "parallelism": 100_001, "maxFailedIndexes": 100_001},
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.completions: Required value: when completion mode is Indexed",
                "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is "
                "Indexed",
                "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
            ],
            id="indexes have bounds",
        ),
        pytest.param(
            {**INDEXED, "maxFailedIndexes": 6, "backoffLimitPerIndex": 1},
            ["spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"],
            id="no more can fail than there are",
        ),
        pytest.param(
            {**INDEXED, "completions": 100_001, "parallelism": 10_001, "backoffLimitPerIndex": 1},
            [
                "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
                f"spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 {MANY}",
            ],
            id="of very many indexes few run at once",
        ),
        pytest.param(
            {**INDEXED, "completions": 100_001, "maxFailedIndexes": 10_001, "backoffLimitPerIndex": 1},
            [f"spec.maxFailedIndexes: Invalid value: 10001: must be less than or equal to 10000 {MANY}"],
            id="of very many indexes few fail",
        ),
        pytest.param(
            _failing({"onExitCodes": EXIT}),
            [f'{RULE}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'],
            id="a rule says what to do",
        ),
        pytest.param(
            _failing({"action": "FailIndex", "onExitCodes": EXIT}),
            [f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'],
            id="only an index fails as one",
        ),
        pytest.param(
            _failing({"action": "Other", "onExitCodes": EXIT, "onPodConditions": [{"type": "a b", "status": "X"}]}),
            [
                f'{RULE}.action: Unsupported value: "Other": supported values: "Count", "FailIndex", "FailJob", '
                '"Ignore"',
                f'{RULE}.onPodConditions[0].type: Invalid value: "a b": name part must consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  "
                "or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                f'{RULE}.onPodConditions[0].status: Unsupported value: "X": supported values: "False", "True", '
                '"Unknown"',
                f"{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
            ],
            id="a rule is about one thing",
        ),
        pytest.param(
            _failing({"action": "Count"}),
            [f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
            id="a rule is about something",
        ),
        pytest.param(
            _failing({"action": "Count", "onExitCodes": {"containerName": "d"}}),
            [
                f'{RULE}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
                f'{RULE}.onExitCodes.containerName: Invalid value: "d": must be one of the container or initContainer '
                "names in the pod template",
                f"{RULE}.onExitCodes.values: Invalid value: null: at least one value is required",
            ],
            id="codes of containers that there are",
        ),
        pytest.param(
            _failing({"action": "Count", "onExitCodes": {"operator": "In", "values": [2, 0, 2]}}),
            [
                f"{RULE}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                f"{RULE}.onExitCodes.values[2]: Duplicate value: 2",
                f"{RULE}.onExitCodes.values: Invalid value: [2,0,2]: must be ordered",
            ],
            id="codes ascend",
        ),
        pytest.param(
            _failing({"action": "Count", "onExitCodes": {"operator": "In", "values": list(range(1, 257))}}),
            [f"{RULE}.onExitCodes.values: Too many: 256: must have at most 255 items"],
            id="there are not so many codes",
        ),
        pytest.param(
            _failing(*[{"action": "Count", "onExitCodes": EXIT}] * 21),
            ["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"],
            id="not so many rules",
        ),
        pytest.param(
            {"podFailurePolicy": {}, "podReplacementPolicy": "TerminatingOrFailed", "template": ON_FAILURE},
            [
                'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
                'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when '
                "podFailurePolicy is specified",
            ],
            id="pods that are judged end",
        ),
        pytest.param(
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            [
                'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires '
                "indexed completion mode"
            ],
            id="what is enough is said of indexes",
        ),
        pytest.param(
            _enough(),
            [
                f"{ENOUGH}: Required value: at least one rules must be specified when the successPolicy is specified",
            ],
            id="something is enough",
        ),
        pytest.param(
            _enough({}, {"succeededIndexes": "0-1", "succeededCount": 6}, {"succeededCount": -1}),
            [
                f"{ENOUGH}[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                f"{ENOUGH}[1].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of "
                "specified completions)",
                f"{ENOUGH}[1].succeededCount: Invalid value: 6: must be less than or equal to 2 (the number of indexes "
                "in the specified succeededIndexes field)",
                f"{ENOUGH}[2].succeededCount: Invalid value: -1: must be greater than or equal to 0",
            ],
            id="so many can succeed",
        ),
        pytest.param(
            _enough({"succeededIndexes": "0,5"}, *[{"succeededCount": 1}] * 20),
            [
                f"{ENOUGH}: Too many: 21: must have at most 20 items",
                f'{ENOUGH}[0].succeededIndexes: Invalid value: "0,5": error parsing succeededIndexes: too large index: '
                '"5"',
            ],
            id="indexes that there are",
        ),
        pytest.param(
            {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}},
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
            id="pods of a job end",
        ),
    ],
)
def test_what_jobs_may_not_be(spec: Object, told: list[str]) -> None:
    assert _told(**spec) == told


async def _changed(api: Api, root: str, spec: Object, *changes: tuple[str, Object]) -> Answer:
    """Make one, and change it or its status step by step; the last answer."""
    await api.made(root, {"metadata": {"name": "j"}, "spec": spec})
    for part, change in changes:
        answer = await api.patch(f"{root}/j{part}", change)
    return answer


def _causes(answer: Answer) -> list[tuple[str, str]]:
    return [(each["field"], each["message"]) for each in answer.body.get("details", {}).get("causes", ())]


JOB: Object = {"template": {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}}
SUSPENDED: Object = {**JOB, "suspend": True}
FIXED = "field is immutable"
LARGER = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}]
STEERED: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"a": "b"}, "containers": LARGER}}
HALTED = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        pytest.param(SUSPENDED, [("", {"spec": {"template": STEERED}})], id="before it ever began"),
        pytest.param(
            SUSPENDED,
            [("/status", {"status": HALTED}), ("", {"spec": {"template": STEERED}})],
            id="when it has come to a halt",
        ),
        pytest.param(
            {**JOB, **INDEXED}, [("", {"spec": {"completions": 3, "parallelism": 3}})], id="in size, when it is elastic"
        ),
    ],
)
async def test_when_a_job_may_change(api: Api, spec: Object, changes: list[tuple[str, Object]]) -> None:
    answer = await _changed(api, JOBS, spec, *changes)
    assert answer.status == 200, answer.text


@pytest.mark.parametrize(
    ("spec", "changes", "field", "text"),
    [
        pytest.param(JOB, [("", {"spec": {"template": STEERED}})], "spec.template", FIXED, id="it runs"),
        pytest.param(
            SUSPENDED,
            [
                ("/status", {"status": {"startTime": "2026-01-01T00:00:00Z"}}),
                ("", {"spec": {"template": STEERED}}),
            ],
            "spec.template",
            FIXED,
            id="it is about to come to a halt",
        ),
        pytest.param(
            SUSPENDED,
            [("/status", {"status": {**HALTED, "active": 1}}), ("", {"spec": {"template": STEERED}})],
            "spec.template",
            FIXED,
            id="it has pods still",
        ),
        pytest.param(
            SUSPENDED,
            [("", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "y"}]}}}})],
            "spec.template.spec",
            FIXED,
            id="its pods would be others",
        ),
        pytest.param(JOB, [("", {"spec": {"managedBy": "a.com/b"}})], "spec.managedBy", FIXED, id="its manager"),
        pytest.param(
            {**JOB, **INDEXED},
            [("", {"spec": {"completions": 3}})],
            "spec.completions",
            "Invalid value: 3: can only be modified in tandem with spec.parallelism",
            id="its completions alone",
        ),
    ],
)
async def test_when_a_job_may_not_change(
    api: Api, spec: Object, changes: list[tuple[str, Object]], field: str, text: str
) -> None:
    answer = await _changed(api, JOBS, spec, *changes)
    assert answer.status == 422, answer.text
    told = [message for name, message in _causes(answer) if name == field]
    assert len(told) == 1
    assert told[0].endswith(text)


async def test_pods_of_an_indexed_job_have_names_of_hosts(api: Api) -> None:

    told = f'Invalid value: "{"j" * 61}": will not able to create pod with invalid DNS label: {"j" * 61}-10'
    spec = {**JOB, "completionMode": "Indexed", "completions": 11}
    assert _causes(await api.post(JOBS, {"metadata": {"name": "j" * 61}, "spec": spec})) == [("metadata.name", told)]


async def test_an_empty_policy_for_failures_is_one(api: Api) -> None:
    assert (await api.made(JOBS, {"metadata": {"name": "j"}, "spec": {**JOB, "podFailurePolicy": {"rules": []}}}))[
        "spec"
    ]["podReplacementPolicy"] == "Failed"


CRON: Object = {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}
NO_ZONE = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
EXPLICIT = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"schedule": ""}, [("spec.schedule", "Required value")], id="a schedule is needed"),
        pytest.param(
            {"schedule": "TZ=UTC 0 * * * *"},
            [("spec.schedule", f'Invalid value: "TZ=UTC 0 * * * *": {NO_ZONE}')],
            id="a zone has a field",
        ),
        pytest.param(
            {"timeZone": ""},
            [("spec.timeZone", 'Invalid value: "": timeZone must be nil or non-empty string')],
            id="no zone",
        ),
        pytest.param(
            {"timeZone": "Local"},
            [("spec.timeZone", f'Invalid value: "Local": {EXPLICIT}')],
            id="the zone of the server",
        ),
        pytest.param(
            {"timeZone": "LOCAL"},
            [
                ("spec.timeZone", f'Invalid value: "LOCAL": {EXPLICIT}'),
                ("spec.timeZone", 'Invalid value: "LOCAL": unknown time zone LOCAL'),
            ],
            id="the zone of the server, or one that has such a name",
        ),
        pytest.param(
            {"timeZone": "Europe/../Rome"},
            [("spec.timeZone", 'Invalid value: "Europe/../Rome": unknown time zone Europe/../Rome')],
            id="a path",
        ),
        pytest.param(
            {"timeZone": " Europe/Rome"},
            [("spec.timeZone", 'Invalid value: " Europe/Rome": unknown time zone  Europe/Rome')],
            id="a space",
        ),
        pytest.param(
            {"startingDeadlineSeconds": -1, "timeZone": "X", "concurrencyPolicy": "Y", "failedJobsHistoryLimit": -1},
            [
                ("spec.startingDeadlineSeconds", "Invalid value: -1: must be greater than or equal to 0"),
                ("spec.timeZone", 'Invalid value: "X": unknown time zone X'),
                ("spec.concurrencyPolicy", 'Unsupported value: "Y": supported values: "Allow", "Forbid", "Replace"'),
                ("spec.failedJobsHistoryLimit", "Invalid value: -1: must be greater than or equal to 0"),
            ],
            id="one after the other",
        ),
        pytest.param(
            {"jobTemplate": {"spec": {**JOB, "manualSelector": True, "maxFailedIndexes": 1}}},
            [
                (
                    "spec.jobTemplate.spec.backoffLimitPerIndex",
                    "Required value: when maxFailedIndexes is specified",
                ),
                (
                    "spec.jobTemplate.spec.maxFailedIndexes",
                    "Invalid value: 1: requires indexed completion mode",
                ),
                (
                    "spec.jobTemplate.spec.manualSelector",
                    'Unsupported value: true: supported values: "nil", "false"',
                ),
            ],
            id="its jobs",
        ),
    ],
)
async def test_what_cron_jobs_may_not_be(api: Api, spec: Object, told: list[tuple[str, str]]) -> None:
    assert _causes(await api.post(CRON_JOBS, {"metadata": {"name": "c"}, "spec": {**CRON, **spec}})) == told


async def test_an_old_cron_job_may_keep_its_zones(api: Api) -> None:
    """It was made when this server knew its zone, and schedules could name one."""
    key = "batch/cronjobs/default/j"
    await api.made(CRON_JOBS, {"metadata": {"name": "j"}, "spec": {**CRON, "timeZone": "UTC"}})
    await api.rewrite(key, '"UTC"', '"Atlantis"')
    await api.rewrite(key, '"* * * * *"', '"TZ=UTC * * * * *"')
    both, less, more = [
        await api.patch(f"{CRON_JOBS}/j", {"spec": change})
        for change in ({"suspend": True}, {"timeZone": None}, {"timeZone": "Atlantis", "suspend": False})
    ]
    twice = 'Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule'
    assert _causes(both) == [("spec.schedule", twice)]
    assert less.status == 200, less.text
    assert ("spec.timeZone", 'Invalid value: "Atlantis": unknown time zone Atlantis') in _causes(more)
