"""Looks at a namespace when it comes or changes, and when one of its accounts goes."""

from pilothouse.api.core import NAMESPACES, SERVICE_ACCOUNTS
from pilothouse.client.errors import AlreadyExists, ApiError, has_cause
from pilothouse.controllers.identity.serviceaccount import DESCRIPTOR
from pilothouse.controllers.identity.serviceaccount.decide import DEFAULT, lacks_account, new_account
from pilothouse.runtime import ControllerContext, ManagedController, Requeue


def build(context: ControllerContext) -> "ServiceAccountController":
    """The factory of the descriptor."""
    return ServiceAccountController(context)


class ServiceAccountController(ManagedController):
    """See the package for the promises. Keys are names of namespaces."""

    def __init__(self, context: ControllerContext) -> None:
        namespaces = context.informer(NAMESPACES)
        accounts = context.informer(SERVICE_ACCOUNTS)
        super().__init__(context, DESCRIPTOR.name, queue_name="serviceaccount")
        self._client = context.client
        self._namespaces = namespaces.cache
        self._accounts = accounts.cache
        accounts.add_handler(on_delete=lambda account, _unknown: self.queue.add(account.metadata.namespace))
        namespaces.add_handler(
            on_add=lambda namespace, _initial: self.queue.add(namespace.metadata.name),
            on_update=lambda _old, namespace: self.queue.add(namespace.metadata.name),
        )

    async def reconcile(self, key: str) -> Requeue | None:
        """Make the account if it is missing."""
        if not lacks_account(self._namespaces.get(key), self._accounts.get(f"{key}/{DEFAULT}")):
            return None
        try:
            await self._client.create(SERVICE_ACCOUNTS, new_account(key), key)
        except AlreadyExists:
            return None  # somebody was quicker, and the cache will hear of it
        except ApiError as error:
            if not has_cause(error, "NamespaceTerminating"):
                raise
        return None
