"""The cases of ``pkg/controller/certificates/approver/sarapprove_test.go`` (v1.36), and where each of them is."""

from tests.controllers.upstream_coverage import Cases

_RIGHTS, _ASKED = (
    "test_recognizers",
    "test_unauthorized_requestor_is_retried_and_approved_once_authorized",
)

COVERED: Cases = {
    "TestHasKubeletUsages": _RIGHTS,
    "TestHandle: not recognized, not allowed": (
        "test_requests_that_are_not_kubelet_client_certificates_are_left_pending"
    ),
    "TestHandle: not recognized, allowed": "test_requests_that_are_not_kubelet_client_certificates_are_left_pending",
    "TestHandle: recognized, not allowed": _ASKED,
    "TestHandle: recognized, allowed": "test_authorized_requestor_is_approved",
    "TestRecognizers: good": _RIGHTS,
    "TestRecognizers: bad cn": _RIGHTS,
    "TestRecognizers: no organization": _RIGHTS,
    "TestRecognizers: another organization": _RIGHTS,
    "TestRecognizers: a usage more": _RIGHTS,
    "TestRecognizers: different requestor": _RIGHTS,
    "TestRecognizers: different cn": _RIGHTS,
}
