"""The cases of upstream's test of ``pkg/controller/volume/vacprotection``, and where each of them is.

``vac_protection_controller_test.go`` was read in a public copy of v1.34.
"""

from tests.controllers.upstream_coverage import Cases

_ALONE, _FAILS = "test_unused_class", "test_failed_update_is_retried"
_USED = "test_class_is_deleted_with_its_last_reference"

COVERED: Cases = {
    "VAC without finalizer": _ALONE,
    "VAC with finalizer": _ALONE,
    "saving VAC finalizer fails": _FAILS,
    "deleted VAC with finalizer": _ALONE,
    "finalizer removal fails": _FAILS,
    "deleted VAC with finalizer but it's referenced by a PV": _USED,
    "deleted VAC with finalizer but it's referenced by a PVC": _USED,
    "pv changes vac and deleted VAC with finalizer": _USED,
    "pv is deleted and deleted VAC with finalizer": _USED,
    "pv is deleted but other pv still holds terminating vac": _USED,
    "pv is deleted but pvc still holds terminating vac": _USED,
    "pvc changes vac and deleted VAC with finalizer": _USED,
    "pvc changes vac but its status still holds terminating vac": _USED,
    "pvc changes vac but its target status still holds terminating vac": _USED,
    "pvc is deleted but other pvc still holds terminating vac": _USED,
    "pvc is deleted but pv still holds terminating vac": _USED,
}
