"""Which certificates of servers are trusted: those that Go's crypto/x509 trusts, as far as OpenSSL allows it.

``client.tls`` asks it for API servers, the API server for webhooks.
"""

import ssl


def trust_as_go(context: ssl.SSLContext) -> None:
    """Have a client's context verify as Go does.

    Whatever is in the bundle is trusted by itself, not only an authority at the end of a chain: also an authority in
    the middle, and the server's own certificate, which is what envtest puts into a webhook's ``caBundle``. A host name
    is searched in the subject's alternative names only (Go 1.15). RFC 5280 is not enforced to the letter, as
    CPython's default contexts do since 3.13: many a hand-made authority does without the extensions it asks for.
    """
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
