"""Sends SubjectAccessReviews for the requests of kubelets, and approves those that are allowed."""

import msgspec

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import View
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.identity.certificatesigningrequest_approving import DESCRIPTOR
from pilothouse.controllers.identity.certificatesigningrequest_approving.decide import (
    CSRRecognizer,
    approval,
    is_undecided,
    recognizers_for,
    review_of,
)
from pilothouse.controllers.shared.certificate_queue import QUEUE, WORKERS, queue_limiter, with_condition
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater
from pilothouse.semantics.certificate_requests import parse_request, requested_names


class _ReviewStatus(View, frozen=True):
    allowed: bool = False


class _Review(View, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


_REVIEWS = Kind("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, _Review)


class RequestApprover(ManagedController):
    """Keys are names of requests."""

    def __init__(self, context: ControllerContext) -> None:
        requests = context.informer(CERTIFICATE_SIGNING_REQUESTS)
        super().__init__(
            context, DESCRIPTOR.name, workers=WORKERS, limiter=queue_limiter(context.env), queue_name=QUEUE
        )
        self._client = context.client
        self._requests = requests.cache
        on_any_event(requests, self._enqueue)

    def _enqueue(self, request: CertificateSigningRequest) -> None:
        self.queue.add(request.metadata.name)

    async def reconcile(self, key: str) -> Requeue | None:
        """Approve a kubelet's request if one of the rights is granted."""
        request, raw = self._requests.get(key), self._requests.raw(key)
        if request is None or not is_undecided(request):
            return None
        assert raw is not None, "the informer was asked to keep it"
        # A request that cannot be parsed is retried forever, as upstream.
        recognizers = recognizers_for(request, requested_names(parse_request(request.spec.request)))
        for recognizer in recognizers:
            if await self._authorize(request, recognizer):
                await self._approve(key, raw, recognizer)
                return None
        if recognizers:
            messages = " ".join(recognizer.subresource for recognizer in recognizers)
            raise RetryLater(f'recognized csr "{key}" as [{messages}] but subject access review was not approved')
        return None

    async def _authorize(self, request: CertificateSigningRequest, recognizer: CSRRecognizer) -> bool:
        review = await self._client.create(_REVIEWS, review_of(request, recognizer))
        return review.status.allowed

    async def _approve(self, key: str, raw: bytes, recognizer: CSRRecognizer) -> None:
        body = with_condition(raw, msgspec.json.encode(approval(recognizer)))
        record_decision(f"a kubelet requests its own certificate, and may {recognizer.subresource}: approved")
        try:
            await self._client.update(CERTIFICATE_SIGNING_REQUESTS.raw, key, body, subresource="approval")
        except (Conflict, NotFound) as error:
            # The cache is old: it will get the decision or the deletion.
            raise RetryLater(str(error)) from error
        self.log.info("Approved a certificate request", v=2, csr=key, recognizer=recognizer.subresource)


build = RequestApprover
