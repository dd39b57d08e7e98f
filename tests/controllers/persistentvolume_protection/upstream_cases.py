"""The cases of upstream's test of ``pkg/controller/volume/pvprotection``, and where each of them is.

``pv_protection_controller_test.go`` was read in two stored public copies, of before v1.27 and of v1.28 or later, whose
cases are the same; v1.36 itself could not be picked there.
"""

from tests.controllers.upstream_coverage import Cases

_WHAT, _FAILS = "test_pv_protection_controller", "test_failed_update_is_retried"

COVERED: Cases = {
    "PV without finalizer": _WHAT,
    "PVC with finalizer": _WHAT,
    "saving PVC finalizer fails": _FAILS,
    "deleted PV with finalizer": _WHAT,
    "finalizer removal fails": _FAILS,
    "deleted PVC with finalizer + PV is bound": _WHAT,
}
