"""CronJobs, replayed: the writes and events are those of kube-controller-manager v1.36.2.

The recorded containers end with their ``sleep``; here an annotation of the template has the duration, and is removed
before comparing. The server fills in defaults of a Job's spec, as the recorded one did before it wrote its audit log.
"""

import copy
import re

import pytest
from msgspec.structs import replace
from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import KubectlUser, Steps, replay
from tests.traces.records import Record, recorded

USER = "cronjob-controller"
RUN_TIME = "simulated.pilothouse.dev/run-time"
MILLISECONDS = (0.001, 0.004)


def manifest(policy: str, seconds: int) -> str:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", f"sleep {seconds}"]}
    pods = {
        "metadata": {"annotations": {RUN_TIME: f"{seconds}s"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": {"template": pods}}}
    return str({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec})


async def begin(user: KubectlUser) -> None:
    """The recorded scenarios began 20.3 seconds after a full minute."""
    now = user.env.now()
    await user.at((20.3 - now.second - now.microsecond / 1e6) % 60)
    user.server.zero = user.env.monotonic()


async def minute(user: KubectlUser) -> None:
    await begin(user)
    await user.create(manifest("Allow", 1))
    await user.at(48.9)
    await user.delete("CronJob", "tick")
    await user.at(55.0)


async def forbid(user: KubectlUser) -> None:
    await begin(user)
    await user.create(manifest("Forbid", 80))
    await user.at(153.2)
    await user.delete("CronJob", "tick")
    await user.at(160.0)


STEPS: dict[str, Steps] = {"08a-cronjob-minute": minute, "08b-cronjob-forbid": forbid}


FILLED_IN = {
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "completions": 1,
    "manualSelector": False,
    "parallelism": 1,
    "podReplacementPolicy": "TerminatingOrFailed",
    "suspend": False,
}
"""What the recorded server filled in before it wrote down what it had been sent."""


def plain(record: Record) -> Record:
    """Without substitutes of the recorded containers, and without defaults of the server."""
    kind = record.resource.partition("/")[0]
    if record.user != USER or kind not in ("jobs", "cronjobs") or not isinstance(record.body, dict):
        return record
    body = copy.deepcopy(record.body)
    spec = body["spec"]
    if kind == "cronjobs":
        spec = spec["jobTemplate"]["spec"]
    else:
        for name, value in FILLED_IN.items():
            assert spec.pop(name, value) == value
    spec["template"]["metadata"].pop("annotations", None)
    return replace(record, body=body)


_MINUTES = re.compile(r"tick-(MINUTE\d+|\d+)")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def lines(trace: Trace) -> list[str]:
    """Jobs are numbered in order of creation."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"tick-{numbers.setdefault(match[1], len(numbers))}"

    result = trace.lines([record for record in trace.of(USER) if not record.is_read])
    return [_TIME.sub("TIME", _MINUTES.sub(number, line)) for line in result]


@pytest.mark.parametrize("latency", [None, MILLISECONDS], ids=["no latency", "with latency"])
@pytest.mark.parametrize("scenario", STEPS)
def test_cron_job_is_as_recorded(scenario: str, latency: tuple[float, float] | None) -> None:
    played = replay(scenario, STEPS[scenario], latency=latency, seed=1).records
    actual, expected = Trace(map(plain, played)), Trace(map(plain, recorded(scenario)))
    assert_same(lines(actual), lines(expected))
    reads = [(record.verb, record.resource) for record in actual.of(USER) if record.is_read]
    assert set(reads) <= {("get", "cronjobs")}, "no more than the recorded one asks"
