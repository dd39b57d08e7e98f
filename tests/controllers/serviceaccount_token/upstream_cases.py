"""The cases of ``pkg/controller/serviceaccount/tokens_controller_test.go`` (v1.36, ``TestTokenCreation``), and where
each of them is."""

from tests.controllers.upstream_coverage import Cases

_NOTHING = "test_no_account_gets_a_secret_that_nobody_asked_for"
_LACKS, _RIGHT = "test_what_a_secret_lacks", "test_what_is_changed_is_put_right_and_the_rest_stays"
_FILLED, _GONE = "test_a_secret_that_names_an_account_is_filled_once", "test_the_secrets_of_an_account_go_with_it"
_ORPHAN = "test_a_secret_of_an_account_that_is_not_there_is_deleted"
_ORPHANS = "test_only_secrets_of_the_account_that_is_gone_are_orphans"

COVERED: Cases = {
    "new serviceaccount with no secrets": _NOTHING,
    "new serviceaccount with missing secrets": _NOTHING,
    "new serviceaccount with missing secrets and a local secret in the cache": _NOTHING,
    "new serviceaccount with non-token secrets": _NOTHING,
    "new serviceaccount with token secrets": _FILLED,
    "updated serviceaccount with no secrets": _NOTHING,
    "updated serviceaccount with missing secrets": _NOTHING,
    "updated serviceaccount with non-token secrets": _NOTHING,
    "updated serviceaccount with token secrets": _FILLED,
    "updated serviceaccount with no secrets with resource conflict": _NOTHING,
    "deleted serviceaccount with no secrets": _GONE,
    "deleted serviceaccount with missing secrets": _GONE,
    "deleted serviceaccount with non-token secrets": _ORPHANS,
    "deleted serviceaccount with token secrets": _GONE,
    "added secret without serviceaccount": _ORPHAN,
    "added secret with serviceaccount": _FILLED,
    "added token secret without token data": _LACKS,
    "added token secret without ca data": _LACKS,
    "added token secret with mismatched ca data": _LACKS,
    "added token secret without namespace data": _LACKS,
    "added token secret with custom namespace data": "test_a_namespace_of_its_own_stays",
    "updated secret without serviceaccount": _ORPHAN,
    "updated secret with serviceaccount": _FILLED,
    "updated token secret without token data": _RIGHT,
    "updated token secret without ca data": _RIGHT,
    "updated token secret with mismatched ca data": _RIGHT,
    "updated token secret without namespace data": _RIGHT,
    "updated token secret with custom namespace data": _LACKS,
    "deleted secret without serviceaccount": _ORPHAN,
    "deleted secret with serviceaccount with reference": "test_an_account_lists_no_secret_that_is_gone",
    "deleted secret with serviceaccount without reference": "test_an_account_that_did_not_list_it_is_only_looked_at",
}
