"""CertificateSigningRequests. After kubernetes' ``pkg/registry/certificates/certificates/strategy.go`` and
``pkg/apis/certificates/validation`` (v1.36)."""

from pilothouse.apiserver.registry.certificates.certificatesigningrequests.strategy import (
    CertificateSigningRequestStrategy,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.certificates.certificatesigningrequests import (
        printers as certificate_signing_request_printers,
    )


REGISTRATION = Registration(
    CertificateSigningRequestStrategy(),
    printer=lambda: certificate_signing_request_printers.PRINTER,
)
