"""Sends SubjectAccessReviews for the requests of kubelets, and approves those that are allowed."""

import msgspec

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import View
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.identity.certificatesigningrequest_approving import DESCRIPTOR
from pilothouse.controllers.identity.certificatesigningrequest_approving.decide import (
    Right,
    approval,
    is_open,
    review_of,
    rights_that_do,
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
        on_any_event(requests, self._seen)

    def _seen(self, request: CertificateSigningRequest) -> None:
        self.queue.add(request.metadata.name)

    async def reconcile(self, key: str) -> Requeue | None:
        """Approve a kubelet's request if one of the rights is granted."""
        request, raw = self._requests.get(key), self._requests.raw(key)
        if request is None or not is_open(request):
            return None
        assert raw is not None, "the informer was asked to keep it"
        # A request that cannot be parsed is retried forever, as upstream.
        rights = rights_that_do(request, requested_names(parse_request(request.spec.request)))
        for right in rights:
            if await self._is_granted(request, right):
                await self._approve(key, raw, right)
                return None
        if rights:
            tried = " ".join(right.subresource for right in rights)
            raise RetryLater(f'recognized csr "{key}" as [{tried}] but subject access review was not approved')
        return None

    async def _is_granted(self, request: CertificateSigningRequest, right: Right) -> bool:
        review = await self._client.create(_REVIEWS, review_of(request, right))
        return review.status.allowed

    async def _approve(self, key: str, raw: bytes, right: Right) -> None:
        body = with_condition(raw, msgspec.json.encode(approval(right)))
        record_decision(f"a kubelet asks for its own certificate, and may {right.subresource}: approved")
        try:
            await self._client.update(CERTIFICATE_SIGNING_REQUESTS.raw, key, body, subresource="approval")
        except (Conflict, NotFound) as error:
            # The cache is old: it will get the decision or the deletion.
            raise RetryLater(str(error)) from error
        self.log.info("Approved a certificate request", v=2, csr=key, right=right.subresource)


build = RequestApprover
