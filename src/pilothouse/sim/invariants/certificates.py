"""Invariants of certificates: each is for an approved request, and each approved request gets one.

Computed from the committed objects after every write.
"""

from collections.abc import Collection

from pilothouse.api.certificates import CertificateSigningRequest
from pilothouse.env.lazy import lazy_imports
from pilothouse.semantics.certificate_requests import has_failed, is_approved, parse_request
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

with lazy_imports():
    from cryptography import x509


class Certificates(Invariant):
    """All requests for these signers, which no other program signs.

    ``issued`` counts certificates (for tests).
    """

    def __init__(self, signers: Collection[str]) -> None:
        self._signers = frozenset(signers)
        self._requests = Objects("certificates.k8s.io/certificatesigningrequests/", CertificateSigningRequest)
        self.issued = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        name, old, new = self._requests.follow(change) or ("", None, None)
        if new is None:
            return
        if old is not None and old.metadata.uid != new.metadata.uid:
            old = None
        if new.status.certificate and (old is None or not old.status.certificate):
            self._check(name, old, new)

    def _check(self, name: str, old: CertificateSigningRequest | None, new: CertificateSigningRequest) -> None:
        """Check a certificate that was just issued, against the conditions before."""
        self.issued += 1
        if old is None or not is_approved(old):
            raise Violation(f"{name} was issued a certificate that was not approved")
        if has_failed(old):
            raise Violation(f"{name} was issued a certificate after it had been marked as failed")
        if new.spec.signer_name not in self._signers:
            raise Violation(
                f"{name} was issued a certificate by {new.spec.signer_name}, which is not one of the checked signers"
            )
        certificate = x509.load_pem_x509_certificate(new.status.certificate)
        desired = parse_request(new.spec.request)
        if certificate.public_key() != desired.public_key() or set(certificate.subject) != set(desired.subject):
            raise Violation(f"{name} was issued a certificate for another request")

    def check_final_state(self) -> None:
        """At the end no approved request is pending."""
        for name, request in self._requests.items():
            waits = is_approved(request) and not has_failed(request) and not request.status.certificate
            if waits and request.spec.signer_name in self._signers:
                raise Violation(f"{name} was approved, and neither issued nor marked as failed")
