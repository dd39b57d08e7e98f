"""Coverage of upstream's tests of ``pkg/controller/cronjob``.

Read in stored public copies of about v1.28; v1.36 itself could not be picked there.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import Cases, missing

_SYNC = "test_sync_cron_job"

COVERED: Cases = {
    # cronjob_controllerv2_test.go
    "TestControllerV2SyncCronJob": _SYNC,
    "TestControllerV2SyncCronJob: active and lastSuccessfulTime": "test_status_of_active_and_successful_jobs",
    "TestControllerV2SyncCronJob: what it says": "test_events_of_a_sync",
    "TestControllerV2SyncCronJob: a time zone": "test_most_recent_schedule_time",
    "TestControllerV2UpdateCronJob": "test_changed_schedule_applies_from_the_next_time",
    "TestControllerV2UpdateCronJob: spec.schedule with @every changed": (
        "test_changed_every_schedule_counts_from_the_last_schedule_time"
    ),
    "TestControllerV2GetJobsToBeReconciled": ("test_existing_job_of_the_same_name_skips_one_schedule"),
    "TestControllerV2CleanupFinishedJobs": "test_cleanup_finished_jobs",
    "TestControllerV2JobAlreadyExistsButNotInActiveStatus": "test_one_job_per_schedule_under_faults",
    "TestControllerV2JobAlreadyExistsButDifferentOwner": ("test_existing_job_of_the_same_name_skips_one_schedule"),
    # utils_test.go
    "TestGetJobFromTemplate2": "test_job_from_template",
    "TestNextScheduleTime": "test_next_schedule_time",
    "TestByJobStartTime": "test_cleanup_finished_jobs",
    "TestMostRecentScheduleTime": "test_most_recent_schedule_time",
    "TestMostRecentScheduleTime: rogue cronjob": "test_schedules_that_never_occur",
    "TestNextScheduleTimeDuration": "test_next_schedule_time_duration",
    "TestIsJobSucceeded": "test_status_of_active_and_successful_jobs",
}


def test_no_upstream_case_is_missing() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
