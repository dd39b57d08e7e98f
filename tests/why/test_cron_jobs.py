"""CronJobs with missed schedules."""

import asyncio
from typing import Any

from tests.why.cluster import Cluster, text

from pilothouse.api.batch import CRON_JOBS

_QUICK = {"metadata": {"annotations": {"simulated.pilothouse.dev/run-time": "1s"}}}


def _cron_job(**spec: Any) -> dict[str, Any]:
    annotations = {"simulated.pilothouse.dev/run-time": "forever"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "report"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}, **spec},
    }


async def test_completed_job(cluster: Cluster) -> None:
    await cluster.create(_cron_job())
    await cluster.patch(CRON_JOBS, "report", {"spec": {"jobTemplate": {"spec": {"template": _QUICK}}}})
    await asyncio.sleep(70)
    (job,) = await cluster.documents("jobs.batch", "default")
    explanation = await cluster.why("jobs.batch", job["metadata"]["name"])
    assert explanation.state == "completed", text(explanation)
    assert "completed: 1 pod succeeded" in text(explanation)


async def test_previous_job_still_active(cluster: Cluster) -> None:
    await cluster.create(_cron_job(concurrencyPolicy="Forbid"))
    await asyncio.sleep(190)
    explanation = await cluster.why("cronjobs.batch", "report")
    assert explanation.state == "did not start"
    (missed,) = explanation.steps[0].because
    assert "concurrencyPolicy is Forbid, and report-" in missed.text
    assert [item.object.partition("-")[0] for item in missed.because] == ["job/report"]
