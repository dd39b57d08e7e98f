"""Validation of Jobs and CronJobs (kubernetes ``pkg/apis/batch/validation/validation_test.go``, v1.36)."""

from typing import Any

from tests.apiserver.api import Answer, Api, Object
from tests.tables import cases

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
ON_EXIT_CODES = {"operator": "In", "values": [1]}


def _errors(**spec: Any) -> list[str]:
    return [f"{error.field}: {error.text}" for error in validate_job_spec({"template": TEMPLATE, **spec}, "spec")]


def _pod_failure_policy(*rules: Object) -> Object:
    return {"podFailurePolicy": {"rules": list(rules)}}


def _success_policy(*rules: Object) -> Object:
    return {**INDEXED, "successPolicy": {"rules": list(rules)}}


RULE = "spec.podFailurePolicy.rules[0]"
RULES = "spec.successPolicy.rules"
HIGH_COMPLETIONS = "when completions are above 100000 and used with backoff limit per index"


@cases(
    "spec",
    {
        "parallelism of 100,000": {**INDEXED, "parallelism": 100_000},
        "completions of 1,000,000,000": {
            **INDEXED,
            "completions": 1_000_000_000,
            "parallelism": 10_000,
            "maxFailedIndexes": 10_000,
            "backoffLimitPerIndex": 1,
        },
        "managedBy": {"managedBy": "example.com/foo"},
        "pod failure policy": _pod_failure_policy(
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0, 1, 2], "containerName": "c"}},
        ),
        "success policy": _success_policy({"succeededIndexes": "0,2-4", "succeededCount": 4}, {"succeededCount": 5}),
    },
)
def test_accepted_jobs(spec: Object) -> None:
    assert _errors(**spec) == []


@cases(
    "spec, errors",
    {
        "empty managedBy": ({"managedBy": ""}, ["spec.managedBy: Required value"]),
        "managedBy without domain": (
            {"managedBy": "foo"},
            ['spec.managedBy: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")'],
        ),
        "managedBy too long": (
            {"managedBy": f"example.com/{'x' * 60}"},
            ["spec.managedBy: Too long: may not be more than 63 bytes"],
        ),
        "managedBy with an invalid path": (
            {"managedBy": "example.com/a b"},
            [
                'spec.managedBy: Invalid value: "a b": Invalid path (regex used for validation is '
                "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
            ],
        ),
        "unsupported completion mode": (
            {"completionMode": "Other", "backoffLimitPerIndex": 1},
            ['spec.completionMode: Unsupported value: "Other": supported values: "NonIndexed", "Indexed"'],
        ),
        "per-index limits without Indexed": (
            {"backoffLimitPerIndex": 1, "maxFailedIndexes": 1},
            [
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ],
        ),
        "limits of Indexed": (
            {"completionMode": "Indexed", "parallelism": 100_001, "maxFailedIndexes": 100_001},
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.completions: Required value: when completion mode is Indexed",
                "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is "
                "Indexed",
                "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
            ],
        ),
        "maxFailedIndexes above completions": (
            {**INDEXED, "maxFailedIndexes": 6, "backoffLimitPerIndex": 1},
            ["spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"],
        ),
        "parallelism with high completions": (
            {**INDEXED, "completions": 100_001, "parallelism": 10_001, "backoffLimitPerIndex": 1},
            [
                "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
                f"spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 {HIGH_COMPLETIONS}",
            ],
        ),
        "maxFailedIndexes with high completions": (
            {**INDEXED, "completions": 100_001, "maxFailedIndexes": 10_001, "backoffLimitPerIndex": 1},
            [f"spec.maxFailedIndexes: Invalid value: 10001: must be less than or equal to 10000 {HIGH_COMPLETIONS}"],
        ),
        "rule without action": (
            _pod_failure_policy({"onExitCodes": ON_EXIT_CODES}),
            [f'{RULE}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'],
        ),
        "FailIndex without backoffLimitPerIndex": (
            _pod_failure_policy({"action": "FailIndex", "onExitCodes": ON_EXIT_CODES}),
            [f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'],
        ),
        "rule with exit codes and conditions": (
            _pod_failure_policy(
                {"action": "Other", "onExitCodes": ON_EXIT_CODES, "onPodConditions": [{"type": "a b", "status": "X"}]}
            ),
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
        ),
        "rule without exit codes and conditions": (
            _pod_failure_policy({"action": "Count"}),
            [f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
        ),
        "unknown container and missing values": (
            _pod_failure_policy({"action": "Count", "onExitCodes": {"containerName": "d"}}),
            [
                f'{RULE}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
                f'{RULE}.onExitCodes.containerName: Invalid value: "d": must be one of the container or initContainer '
                "names in the pod template",
                f"{RULE}.onExitCodes.values: Invalid value: null: at least one value is required",
            ],
        ),
        "invalid order of exit codes": (
            _pod_failure_policy({"action": "Count", "onExitCodes": {"operator": "In", "values": [2, 0, 2]}}),
            [
                f"{RULE}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                f"{RULE}.onExitCodes.values[2]: Duplicate value: 2",
                f"{RULE}.onExitCodes.values: Invalid value: [2,0,2]: must be ordered",
            ],
        ),
        "too many exit codes": (
            _pod_failure_policy({"action": "Count", "onExitCodes": {"operator": "In", "values": list(range(1, 257))}}),
            [f"{RULE}.onExitCodes.values: Too many: 256: must have at most 255 items"],
        ),
        "too many rules of a pod failure policy": (
            _pod_failure_policy(*[{"action": "Count", "onExitCodes": ON_EXIT_CODES}] * 21),
            ["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"],
        ),
        "restart and replacement policy with a pod failure policy": (
            {"podFailurePolicy": {}, "podReplacementPolicy": "TerminatingOrFailed", "template": ON_FAILURE},
            [
                'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
                'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when '
                "podFailurePolicy is specified",
            ],
        ),
        "success policy without Indexed": (
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            [
                'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires '
                "indexed completion mode"
            ],
        ),
        "success policy without rules": (
            _success_policy(),
            [
                f"{RULES}: Required value: at least one rules must be specified when the successPolicy is specified",
            ],
        ),
        "succeededCount out of range": (
            _success_policy({}, {"succeededIndexes": "0-1", "succeededCount": 6}, {"succeededCount": -1}),
            [
                f"{RULES}[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                f"{RULES}[1].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of "
                "specified completions)",
                f"{RULES}[1].succeededCount: Invalid value: 6: must be less than or equal to 2 (the number of indexes "
                "in the specified succeededIndexes field)",
                f"{RULES}[2].succeededCount: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        "succeededIndexes out of range": (
            _success_policy({"succeededIndexes": "0,5"}, *[{"succeededCount": 1}] * 20),
            [
                f"{RULES}: Too many: 21: must have at most 20 items",
                f'{RULES}[0].succeededIndexes: Invalid value: "0,5": error parsing succeededIndexes: too large index: '
                '"5"',
            ],
        ),
        "restartPolicy Always": (
            {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}},
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
        ),
    },
)
def test_rejected_jobs(spec: Object, errors: list[str]) -> None:
    assert _errors(**spec) == errors


async def _changed(api: Api, root: str, spec: Object, *changes: tuple[str, Object]) -> Answer:
    """Create an object and apply the changes to it or its status; returns the last answer."""
    await api.create(root, {"metadata": {"name": "j"}, "spec": spec})
    for subresource, change in changes:
        answer = await api.patch(f"{root}/j{subresource}", change)
    return answer


def _causes(answer: Answer) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in answer.body.get("details", {}).get("causes", ())]


JOB: Object = {"template": {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}}
SUSPENDED: Object = {**JOB, "suspend": True}
IMMUTABLE = "field is immutable"
CONTAINERS_WITH_REQUESTS = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}]
TEMPLATE_WITH_DIRECTIVES: Object = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"nodeSelector": {"a": "b"}, "containers": CONTAINERS_WITH_REQUESTS},
}
SUSPENDED_STATUS = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}


@cases(
    "spec, changes",
    {
        "template of a Job that was suspended from the start": (
            SUSPENDED,
            [("", {"spec": {"template": TEMPLATE_WITH_DIRECTIVES}})],
        ),
        "template of a suspended Job": (
            SUSPENDED,
            [("/status", {"status": SUSPENDED_STATUS}), ("", {"spec": {"template": TEMPLATE_WITH_DIRECTIVES}})],
        ),
        "completions of an elastic Job": ({**JOB, **INDEXED}, [("", {"spec": {"completions": 3, "parallelism": 3}})]),
    },
)
async def test_accepted_updates(api: Api, spec: Object, changes: list[tuple[str, Object]]) -> None:
    answer = await _changed(api, JOBS, spec, *changes)
    assert answer.status == 200, answer.text


@cases(
    "spec, changes, field, detail",
    {
        "template of a running Job": (
            JOB,
            [("", {"spec": {"template": TEMPLATE_WITH_DIRECTIVES}})],
            "spec.template",
            IMMUTABLE,
        ),
        "template of a Job that is being suspended": (
            SUSPENDED,
            [
                ("/status", {"status": {"startTime": "2026-01-01T00:00:00Z"}}),
                ("", {"spec": {"template": TEMPLATE_WITH_DIRECTIVES}}),
            ],
            "spec.template",
            IMMUTABLE,
        ),
        "template of a suspended Job with active pods": (
            SUSPENDED,
            [
                ("/status", {"status": {**SUSPENDED_STATUS, "active": 1}}),
                ("", {"spec": {"template": TEMPLATE_WITH_DIRECTIVES}}),
            ],
            "spec.template",
            IMMUTABLE,
        ),
        "image in the template of a suspended Job": (
            SUSPENDED,
            [("", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "y"}]}}}})],
            "spec.template.spec",
            IMMUTABLE,
        ),
        "managedBy": (JOB, [("", {"spec": {"managedBy": "a.com/b"}})], "spec.managedBy", IMMUTABLE),
        "completions without parallelism": (
            {**JOB, **INDEXED},
            [("", {"spec": {"completions": 3}})],
            "spec.completions",
            "Invalid value: 3: can only be modified in tandem with spec.parallelism",
        ),
    },
)
async def test_rejected_updates(
    api: Api, spec: Object, changes: list[tuple[str, Object]], field: str, detail: str
) -> None:
    answer = await _changed(api, JOBS, spec, *changes)
    assert answer.status == 422, answer.text
    messages = [message for name, message in _causes(answer) if name == field]
    assert len(messages) == 1
    assert messages[0].endswith(detail)


async def test_indexed_job_pod_names_must_be_host_names(api: Api) -> None:

    detail = f'Invalid value: "{"j" * 61}": will not able to create pod with invalid DNS label: {"j" * 61}-10'
    spec = {**JOB, "completionMode": "Indexed", "completions": 11}
    assert _causes(await api.post(JOBS, {"metadata": {"name": "j" * 61}, "spec": spec})) == [("metadata.name", detail)]


async def test_empty_pod_failure_policy(api: Api) -> None:
    assert (await api.create(JOBS, {"metadata": {"name": "j"}, "spec": {**JOB, "podFailurePolicy": {"rules": []}}}))[
        "spec"
    ]["podReplacementPolicy"] == "Failed"


CRON: Object = {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}
NO_TZ_IN_SCHEDULE = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
EXPLICIT_TIME_ZONE = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"


@cases(
    "spec, errors",
    {
        "missing schedule": ({"schedule": ""}, [("spec.schedule", "Required value")]),
        "TZ in the schedule": (
            {"schedule": "TZ=UTC 0 * * * *"},
            [("spec.schedule", f'Invalid value: "TZ=UTC 0 * * * *": {NO_TZ_IN_SCHEDULE}')],
        ),
        "empty time zone": (
            {"timeZone": ""},
            [("spec.timeZone", 'Invalid value: "": timeZone must be nil or non-empty string')],
        ),
        "Local": (
            {"timeZone": "Local"},
            [("spec.timeZone", f'Invalid value: "Local": {EXPLICIT_TIME_ZONE}')],
        ),
        "LOCAL": (
            {"timeZone": "LOCAL"},
            [
                ("spec.timeZone", f'Invalid value: "LOCAL": {EXPLICIT_TIME_ZONE}'),
                ("spec.timeZone", 'Invalid value: "LOCAL": unknown time zone LOCAL'),
            ],
        ),
        "time zone with ..": (
            {"timeZone": "Europe/../Rome"},
            [("spec.timeZone", 'Invalid value: "Europe/../Rome": unknown time zone Europe/../Rome')],
        ),
        "time zone with a space": (
            {"timeZone": " Europe/Rome"},
            [("spec.timeZone", 'Invalid value: " Europe/Rome": unknown time zone  Europe/Rome')],
        ),
        "errors in upstream's order": (
            {"startingDeadlineSeconds": -1, "timeZone": "X", "concurrencyPolicy": "Y", "failedJobsHistoryLimit": -1},
            [
                ("spec.startingDeadlineSeconds", "Invalid value: -1: must be greater than or equal to 0"),
                ("spec.timeZone", 'Invalid value: "X": unknown time zone X'),
                ("spec.concurrencyPolicy", 'Unsupported value: "Y": supported values: "Allow", "Forbid", "Replace"'),
                ("spec.failedJobsHistoryLimit", "Invalid value: -1: must be greater than or equal to 0"),
            ],
        ),
        "errors in the job template": (
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
        ),
    },
)
async def test_rejected_cron_jobs(api: Api, spec: Object, errors: list[tuple[str, str]]) -> None:
    assert _causes(await api.post(CRON_JOBS, {"metadata": {"name": "c"}, "spec": {**CRON, **spec}})) == errors


async def test_existing_cron_job_keeps_an_unknown_time_zone(api: Api) -> None:
    """It was created when the time zone existed, and schedules could contain TZ."""
    key = "batch/cronjobs/default/j"
    await api.create(CRON_JOBS, {"metadata": {"name": "j"}, "spec": {**CRON, "timeZone": "UTC"}})
    await api.rewrite(key, '"UTC"', '"Atlantis"')
    await api.rewrite(key, '"* * * * *"', '"TZ=UTC * * * * *"')
    suspended, without_time_zone, with_time_zone = [
        await api.patch(f"{CRON_JOBS}/j", {"spec": change})
        for change in ({"suspend": True}, {"timeZone": None}, {"timeZone": "Atlantis", "suspend": False})
    ]
    detail = 'Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule'
    assert _causes(suspended) == [("spec.schedule", detail)]
    assert without_time_zone.status == 200, without_time_zone.text
    assert ("spec.timeZone", 'Invalid value: "Atlantis": unknown time zone Atlantis') in _causes(with_time_zone)
