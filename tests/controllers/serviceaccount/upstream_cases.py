"""The cases of ``pkg/controller/serviceaccount/serviceaccounts_controller_test.go`` (v1.36), and where each of them is.
Upstream's controller could be told of several accounts for each namespace; the program tells it of one."""

from tests.controllers.upstream_coverage import Cases

_LACKS, _NEW = (
    "test_which_namespaces_get_an_account",
    "test_every_namespace_of_the_start_and_every_later_one_has_its_account",
)
_BACK, _GOING = "test_a_deleted_account_comes_back_and_others_do_not", "test_a_namespace_that_goes_gets_no_account_back"

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
