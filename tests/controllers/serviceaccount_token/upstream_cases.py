"""The cases of ``pkg/controller/serviceaccount/tokens_controller_test.go`` (v1.36, ``TestTokenCreation``), and where
each of them is."""

from tests.controllers.upstream_coverage import Cases

_NOTHING = "test_no_secret_is_created_for_an_account"
_LACKS, _RIGHT = "test_missing_secret_data", "test_changed_token_data_is_restored_and_other_data_kept"
_FILLED, _GONE = "test_token_secret_is_populated_once", "test_secrets_are_deleted_with_their_account"
_ORPHAN = "test_secret_of_a_missing_account_is_deleted"
_ORPHANS = "test_secrets_of_a_deleted_account"

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
    "added token secret with custom namespace data": "test_custom_namespace_data_is_kept",
    "updated secret without serviceaccount": _ORPHAN,
    "updated secret with serviceaccount": _FILLED,
    "updated token secret without token data": _RIGHT,
    "updated token secret without ca data": _RIGHT,
    "updated token secret with mismatched ca data": _RIGHT,
    "updated token secret without namespace data": _RIGHT,
    "updated token secret with custom namespace data": _LACKS,
    "deleted secret without serviceaccount": _ORPHAN,
    "deleted secret with serviceaccount with reference": "test_reference_to_a_deleted_secret_is_removed",
    "deleted secret with serviceaccount without reference": "test_account_without_the_reference_is_not_updated",
}
