"""The cases of ``pkg/controller/certificates/cleaner/pcrcleaner_test.go`` (v1.36), and where each of them is."""

from tests.controllers.upstream_coverage import Cases

COVERED: Cases = {
    "TestPCRCleaner: within the threshold": "test_expired_requests",
    "TestPCRCleaner: outside the threshold": "test_expired_requests",
    "TestPCRCleaner: the request goes": "test_expired_requests_are_deleted_every_five_minutes",
}
