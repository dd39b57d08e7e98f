"""Looks at every request once an hour, and deletes those whose time is over (``decide``)."""

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.controllers.identity.certificatesigningrequest_cleaner import DESCRIPTOR
from pilothouse.controllers.identity.certificatesigningrequest_cleaner.decide import why_over
from pilothouse.runtime import Controller, ControllerContext, Requeue

PERIOD_SECONDS = 3600.0
LOOK = "look"


def build(context: ControllerContext) -> "RequestCleaner":
    """The factory of the descriptor."""
    return RequestCleaner(context)


class RequestCleaner(Controller):
    """See the package for the promises."""

    def __init__(self, context: ControllerContext) -> None:
        requests = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS)
        super().__init__(
            DESCRIPTOR.name,
            context.env,
            waits_for=(requests,),
            metrics=context.metrics,
            queue_name="certificatesigningrequest_cleaner",
            log=context.log,
        )
        self._client = context.client
        self._requests = requests.cache
        self.queue.add(LOOK)

    async def reconcile(self, key: str) -> Requeue | None:
        """One look at all. What fails is logged and comes up again in the next one."""
        now = self.env.now()
        for request in self._requests.list():
            why = why_over(request, now)
            if why is None:
                continue
            meta = request.metadata
            self.log.info("Cleaning a certificate request", csr=meta.name, reason=why)
            try:
                await self._client.delete(CERTIFICATE_SIGNING_REQUESTS, meta.name, uid=meta.uid)
            except (NotFound, Conflict):
                continue  # it is gone, or another one of its name is there
            except (ApiError, OSError) as error:
                self.log.error("Error while attempting to clean a certificate request", error=error, csr=meta.name)  # noqa: TRY400  # no traceback: the server said no
        return Requeue(PERIOD_SECONDS)
