"""The cases of ``pkg/controller/certificates/approver/sarapprove_test.go`` (v1.36), and where each of them is."""

from tests.controllers.upstream_coverage import Cases

_RIGHTS, _ASKED = (
    "test_which_right_lets_a_request_through",
    "test_whoever_may_not_is_asked_about_again_and_approved_when_the_right_is_there",
)

COVERED: Cases = {
    "TestHasKubeletUsages": _RIGHTS,
    "TestHandle: not recognized, not allowed": "test_what_is_not_for_a_kubelet_to_log_in_with_is_left_to_people",
    "TestHandle: not recognized, allowed": "test_what_is_not_for_a_kubelet_to_log_in_with_is_left_to_people",
    "TestHandle: recognized, not allowed": _ASKED,
    "TestHandle: recognized, allowed": "test_whoever_may_is_approved",
    "TestRecognizers: good": _RIGHTS,
    "TestRecognizers: bad cn": _RIGHTS,
    "TestRecognizers: no organization": _RIGHTS,
    "TestRecognizers: another organization": _RIGHTS,
    "TestRecognizers: a usage more": _RIGHTS,
    "TestRecognizers: different requestor": _RIGHTS,
    "TestRecognizers: different cn": _RIGHTS,
}
