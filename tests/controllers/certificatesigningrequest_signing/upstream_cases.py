"""The cases of ``signer/signer_test.go`` and ``authority/authority_test.go``, ``pkg/controller/certificates`` (v1.36),
and where each of them is."""

from tests.controllers.upstream_coverage import NOT, Cases

_SERVED, _LONG, _WHEN = (
    "test_handle_signs_or_fails_requests",
    "test_signer_duration",
    "test_not_before_and_not_after",
)

COVERED: Cases = {
    "TestSigner": "test_kubelet_client_certificate",
    "TestHandle: kube-apiserver-client": _SERVED,
    "TestHandle: kube-apiserver-client with an unexpected usage": _SERVED,
    "TestHandle: kube-apiserver-client-kubelet": _SERVED,
    "TestHandle: legacy-unknown": _SERVED,
    "TestHandle: kubelet-serving": _SERVED,
    "TestHandle: should do nothing if failed": "test_failed_request_is_not_signed",
    "TestHandle: should do nothing if an unrecognised signerName is used": _SERVED,
    "TestHandle: should do nothing if not approved": _SERVED,
    "TestHandle: should do nothing if signerName does not start with kubernetes.io": _SERVED,
    "TestHandle: should do nothing if signerName starts with kubernetes.io but is unrecognised": _SERVED,
    "Test_signer_duration: can request shorter duration than TTL": _LONG,
    "Test_signer_duration: cannot request longer duration than TTL": _LONG,
    "Test_signer_duration: cannot request negative duration": _LONG,
    "Test_signer_duration: cannot request duration less than 10 mins": _LONG,
    "Test_signer_duration: can request duration of exactly 10 mins": _LONG,
    "Test_signer_duration: can request duration equal to the default": _LONG,
    "Test_signer_duration: can choose not to request a duration to get the default": _LONG,
    "TestCertificateAuthority: ca info": "test_openssl_verifies_the_certificate",
    "TestCertificateAuthority: key usage": "test_key_usages_from_strings",
    "TestCertificateAuthority: ext key usage": "test_key_usages_from_strings",
    "TestCertificateAuthority: backdate without short": NOT + "the signer always has a bound for what is short",
    "TestCertificateAuthority: backdate without short and super small ttl": NOT + "as the one before",
    "TestCertificateAuthority: backdate with short": _WHEN,
    "TestCertificateAuthority: backdate with short and super small ttl": _WHEN,
    "TestCertificateAuthority: backdate with short but longer ttl": _WHEN,
    "TestCertificateAuthority: truncate expiration": _WHEN,
    "TestCertificateAuthority: uri sans": "test_subject_alternative_names_are_those_of_the_request_in_gos_order",
    "TestCertificateAuthority: expired ca": "test_expired_ca_does_not_sign",
    "TestCertificateAuthority: expired ca with backdate": "test_expired_ca_does_not_sign",
}
