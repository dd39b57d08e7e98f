"""The cases of ``pkg/controller/serviceaccount/serviceaccounts_controller_test.go`` (v1.36), and the tests that cover
them. Upstream's controller supports several accounts per namespace; the program configures one."""

from tests.controllers.upstream_coverage import Cases

_LACKS, _NEW = (
    "test_sync_namespace",
    "test_existing_and_new_namespaces_get_the_default_account",
)
_BACK, _GOING = (
    "test_deleted_default_account_is_recreated_and_others_are_not",
    "test_terminating_namespace_gets_no_account",
)

COVERED: Cases = {
    "new active namespace missing serviceaccounts": _NEW,
    "new active namespace missing serviceaccount": _LACKS,
    "new active namespace with serviceaccounts": _LACKS,
    "new terminating namespace": _LACKS,
    "updated active namespace missing serviceaccounts": _LACKS,
    "updated active namespace missing serviceaccount": _LACKS,
    "updated active namespace with serviceaccounts": _LACKS,
    "updated terminating namespace": _GOING,
    "deleted serviceaccount without namespace": _LACKS,
    "deleted serviceaccount with active namespace": _BACK,
    "deleted serviceaccount with terminating namespace": _GOING,
    "deleted unmanaged serviceaccount with active namespace": _BACK,
    "deleted unmanaged serviceaccount with terminating namespace": _GOING,
}
