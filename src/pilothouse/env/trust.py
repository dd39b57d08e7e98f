"""Verification of server certificates as by Go's crypto/x509, as far as OpenSSL supports it.

Used by ``client.tls`` for API servers, and by the API server for webhooks.
"""

import ssl


def trust_as_go(context: ssl.SSLContext) -> None:
    """Let a client's context verify as Go does.

    Every certificate in the bundle is a trust anchor, not only root CAs: also an intermediate CA, and the server's own
    certificate, which envtest uses as ``caBundle`` of a webhook. Host names are only matched with subject alternative
    names (Go 1.15). RFC 5280 is not enforced strictly, as CPython's default contexts do since 3.13: many self-made CAs
    lack extensions that it requires.
    """
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
