"""The cases of ``pkg/controller/certificates/clustertrustbundlepublisher/publisher_test.go`` (v1.36), and where
each of them is."""

from tests.controllers.upstream_coverage import Cases

_BUNDLES = "test_sync_creates_and_deletes_bundles"

COVERED: Cases = {
    "TestCTBPublisherSync: no CTBs exist": _BUNDLES,
    "TestCTBPublisherSync: no CTBs for the current signer exist": _BUNDLES,
    "TestCTBPublisherSync: CTB for the signer exists with different content": _BUNDLES,
    "TestCTBPublisherSync: multiple CTBs for the signer": _BUNDLES,
    "TestCTBPublisherSync: multiple CTBs, the one with the proper name needs changing": _BUNDLES,
    "TestCTBPublisherSync: another CTB with a different name exists for the signer": _BUNDLES,
    "TestCTBPublisherSync: CTB at the correct state": _BUNDLES,
}
