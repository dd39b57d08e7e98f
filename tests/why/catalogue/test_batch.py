"""Jobs and CronJobs that do not finish or were deleted."""

from typing import Any

from tests.why.catalogue.expectations import assert_explains, root_texts
from tests.why.catalogue.scenario import ADMIN, Scenario, quick_pod


def _job(name: str, *, fails: bool = False, **spec: Any) -> dict[str, Any]:
    prefix = "simulated.pilothouse.dev"
    annotations = {f"{prefix}/run-time": "100ms", f"{prefix}/exit-code": "1" if fails else "0"}
    template = {"metadata": {"annotations": annotations}, "spec": quick_pod(restartPolicy="Never")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def test_a_job_past_its_back_off_limit(scenario: Scenario) -> None:
    scenario.apply(_job("bad", fails=True, backoffLimit=0))
    scenario.until(lambda: scenario.why("job/bad").state == "failed", "the job has failed")
    explanation = scenario.why("job/bad")
    assert_explains(explanation, "failed", "job/bad < pod/bad-* by kubelet [fault]")
    assert explanation.steps[0].text.startswith("job/bad failed: BackoffLimitExceeded: ")


def test_a_job_that_is_suspended(scenario: Scenario) -> None:
    job = _job("later")
    job["spec"]["template"]["metadata"]["annotations"]["simulated.pilothouse.dev/run-time"] = "forever"
    scenario.apply(job)
    scenario("patch", "job", "later", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    assert root_texts(scenario.why("job/later")) == ["job/later changed: spec.suspend: false -> true"]


def test_job_past_ttl(scenario: Scenario) -> None:
    scenario.apply(_job("short", ttlSecondsAfterFinished=0))
    scenario.until_gone("jobs", "short")
    assert_explains(
        scenario.why("job/short"),
        "deleted",
        f"job/short by ttl-after-finished-controller < job/short by {ADMIN} apply* [user]",
    )


def _cron_job(name: str, **spec: Any) -> dict[str, Any]:
    job = _job(name)["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}, **spec},
    }


def test_a_cron_job_that_is_suspended(scenario: Scenario) -> None:
    scenario.apply(_cron_job("never", suspend=True))
    assert_explains(
        scenario.why("cronjob/never"), "suspended", f"cronjob/never < cronjob/never by {ADMIN} apply* [user]"
    )


def test_a_cron_job_that_waits_for_its_time(scenario: Scenario) -> None:
    scenario.apply(_cron_job("yearly", timeZone="Asia/Tokyo"))
    explanation = scenario.why("cronjob/yearly")
    assert (explanation.state, explanation.roots()[0].root) == ("waiting for its time", "time")
    assert "runs at 0 0 1 1 * in Asia/Tokyo, next at " in explanation.steps[0].text
    assert "-12-31T15:00:00Z" in explanation.steps[0].text
