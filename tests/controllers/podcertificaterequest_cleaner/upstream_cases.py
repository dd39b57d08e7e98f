"""The cases of ``pkg/controller/certificates/cleaner/pcrcleaner_test.go`` (v1.36), and where each of them is."""

from tests.controllers.upstream_coverage import Cases

COVERED: Cases = {
    "TestPCRCleaner: within the threshold": "test_whose_time_is_over",
    "TestPCRCleaner: outside the threshold": "test_whose_time_is_over",
    "TestPCRCleaner: the request goes": "test_every_five_minutes_the_old_ones_go",
}
