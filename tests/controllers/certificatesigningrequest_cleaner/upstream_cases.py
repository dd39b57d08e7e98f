"""The cases of ``pkg/controller/certificates/cleaner/cleaner_test.go`` (v1.36), and where each of them is."""

from tests.controllers.upstream_coverage import Cases

_OVER = "test_expired_requests"

COVERED: Cases = {
    "no delete approved not passed deadline": _OVER,
    "no delete approved passed deadline not issued": _OVER,
    "delete approved passed deadline": _OVER,
    "no delete denied not passed deadline": _OVER,
    "delete denied passed deadline": _OVER,
    "no delete failed not passed deadline": _OVER,
    "delete failed passed deadline": _OVER,
    "no delete pending not passed deadline": _OVER,
    "delete pending passed deadline": _OVER,
    "no delete approved not passed deadline unexpired": _OVER,
    "delete approved not passed deadline expired": _OVER,
    "delete approved passed deadline unparseable": _OVER,
}
