"""Looks at every request of a pod each five minutes, and deletes those whose time is over (``decide``)."""

from pilothouse.api.certificates import POD_CERTIFICATE_REQUESTS
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.controllers.identity.podcertificaterequest_cleaner import DESCRIPTOR
from pilothouse.controllers.identity.podcertificaterequest_cleaner.decide import is_over
from pilothouse.runtime import Controller, ControllerContext, Requeue, object_key

PERIOD_SECONDS = 300.0
LOOK = "look"


def build(context: ControllerContext) -> "PodRequestCleaner":
    """The factory of the descriptor."""
    return PodRequestCleaner(context)


class PodRequestCleaner(Controller):
    """See the package for the promises."""

    def __init__(self, context: ControllerContext) -> None:
        requests = context.informers.informer(POD_CERTIFICATE_REQUESTS)
        super().__init__(
            DESCRIPTOR.name,
            context.env,
            waits_for=(requests,),
            metrics=context.metrics,
            queue_name="podcertificaterequest_cleaner",
            log=context.log,
        )
        self._client = context.client
        self._requests = requests.cache
        self.queue.add(LOOK)

    async def reconcile(self, key: str) -> Requeue | None:
        """One look at all. What fails is logged and comes up again in the next one."""
        now = self.env.now()
        for request in self._requests.list():
            meta = request.metadata
            if not is_over(meta, now):
                continue
            try:
                await self._client.delete(POD_CERTIFICATE_REQUESTS, meta.name, meta.namespace, uid=meta.uid)
            except (NotFound, Conflict):
                continue  # it is gone, or another one of its name is there
            except (ApiError, OSError) as error:
                self.log.error("Error while attempting to clean a PodCertificateRequest", error=error, pcr=object_key(meta))  # fmt: skip  # noqa: E501, TRY400
        return Requeue(PERIOD_SECONDS)
