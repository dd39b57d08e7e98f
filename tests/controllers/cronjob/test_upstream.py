"""The cases of upstream's tests of ``pkg/controller/cronjob``, and where each of them is.

Read in stored public copies of about v1.28; v1.36 itself could not be picked there.
"""

from pathlib import Path

from tests.controllers.upstream_coverage import Cases, missing

_SYNC = "test_what_to_do"

COVERED: Cases = {
    # cronjob_controllerv2_test.go
    "TestControllerV2SyncCronJob": _SYNC,
    "TestControllerV2SyncCronJob: active and lastSuccessfulTime": "test_what_became_of_the_jobs",
    "TestControllerV2SyncCronJob: what it says": "test_what_it_says",
    "TestControllerV2SyncCronJob: a time zone": "test_which_moment_is_due",
    "TestControllerV2UpdateCronJob": "test_a_change_of_schedule_counts_from_the_next_moment",
    "TestControllerV2UpdateCronJob: spec.schedule with @every changed": (
        "test_a_change_of_every_counts_from_the_last_moment"
    ),
    "TestControllerV2GetJobsToBeReconciled": ("test_a_foreign_job_of_the_name_is_left_alone_and_the_next_time_comes"),
    "TestControllerV2CleanupFinishedJobs": "test_which_finished_jobs_go",
    "TestControllerV2JobAlreadyExistsButNotInActiveStatus": "test_every_moment_brings_one_job_whatever_fails",
    "TestControllerV2JobAlreadyExistsButDifferentOwner": (
        "test_a_foreign_job_of_the_name_is_left_alone_and_the_next_time_comes"
    ),
    # utils_test.go
    "TestGetJobFromTemplate2": "test_the_job_for_a_moment",
    "TestNextScheduleTime": "test_what_is_unmet",
    "TestByJobStartTime": "test_which_finished_jobs_go",
    "TestMostRecentScheduleTime": "test_which_moment_is_due",
    "TestMostRecentScheduleTime: rogue cronjob": "test_days_that_do_not_exist",
    "TestNextScheduleTimeDuration": "test_how_long_until_the_next",
    "TestIsJobSucceeded": "test_what_became_of_the_jobs",
}


def test_no_upstream_case_is_missing() -> None:
    assert missing(COVERED, Path(__file__).parent) == []
