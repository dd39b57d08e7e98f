"""Syncs requests when they are added or change: issues the certificate, or records why not."""

import base64
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.identity.certificatesigningrequest_signing import DESCRIPTOR, SigningOptions
from pilothouse.controllers.identity.certificatesigningrequest_signing.authorities import authorities
from pilothouse.controllers.identity.certificatesigningrequest_signing.decide import (
    VALIDATIONS,
    certificate_duration,
    failed_condition,
    needs_certificate,
    validity,
)
from pilothouse.controllers.identity.certificatesigningrequest_signing.issuing import issue
from pilothouse.controllers.shared.certificate_queue import QUEUE, WORKERS, queue_limiter, with_condition, with_status
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.times import format_time
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater
from pilothouse.semantics.certificate_requests import parse_request, requested_names

if TYPE_CHECKING:
    from cryptography import x509


def build(context: ControllerContext) -> "RequestSigner":
    """Raises ``CannotRun`` for files that cannot be used."""
    return RequestSigner(context)


class RequestSigner(ManagedController):
    """Keys are names of requests; all signers share one queue."""

    def __init__(self, context: ControllerContext) -> None:
        self._options = context.options_as(SigningOptions)
        self._authorities = authorities(self._options, context.log)
        requests = context.informer(CERTIFICATE_SIGNING_REQUESTS)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=WORKERS * len(self._authorities),
            limiter=queue_limiter(context.env),
            queue_name=QUEUE,
        )
        self._client = context.client
        self._requests = requests.cache
        on_any_event(requests, self._enqueue)

    def _enqueue(self, request: CertificateSigningRequest) -> None:
        self.queue.add(request.metadata.name)

    async def reconcile(self, key: str) -> Requeue | None:
        """Issue the certificate, or set the condition Failed with the reason."""
        request, raw = self._requests.get(key), self._requests.raw(key)
        if request is None or not needs_certificate(request) or request.spec.signer_name not in self._authorities:
            return None
        assert raw is not None, "the informer was asked to keep it"
        spec = request.spec
        parsed = parse_request(spec.request)
        reason = VALIDATIONS[spec.signer_name](requested_names(parsed), spec.usages)
        if reason is not None:
            record_decision(f"signer {spec.signer_name} does not sign it: {reason}")
            condition = failed_condition(reason, format_time(self.env.now()))
            await self._write(key, with_condition(raw, msgspec.json.encode(condition)))
            self.log.info("Certificate request failed validation", v=2, csr=key, signer=spec.signer_name, reason=reason)
            return None
        record_decision(f"the request is approved: signer {spec.signer_name} issues the certificate")
        certificate = base64.b64encode(self._sign(request, parsed))
        await self._write(key, with_status(raw, {"certificate": msgspec.json.encode(certificate.decode())}))
        self.log.info("Issued a certificate", v=2, csr=key, signer=spec.signer_name)
        return None

    def _sign(self, request: CertificateSigningRequest, parsed: "x509.CertificateSigningRequest") -> bytes:
        spec = request.spec
        authority = self._authorities[spec.signer_name]()
        length = certificate_duration(spec.expiration_seconds, self._options.duration)
        valid = validity(self.env.now(), length, authority.certificate.not_valid_after_utc)
        return issue(authority, parsed, spec.usages, valid)

    async def _write(self, key: str, body: bytes) -> None:
        # With the resourceVersion that was read: a request that was replaced or denied in the meantime is a conflict.
        try:
            await self._client.update(CERTIFICATE_SIGNING_REQUESTS.raw, key, body, subresource="status")
        except (Conflict, NotFound) as error:
            raise RetryLater(str(error)) from error
