"""Syncs a namespace when it is added or changes, and when one of its accounts is deleted. Upstream: v1.36
``pkg/controller/serviceaccount/serviceaccounts_controller.go``."""

from typing import Any

from pilothouse.api.core import NAMESPACES, SERVICE_ACCOUNTS, Namespace, ServiceAccount
from pilothouse.client.errors import AlreadyExists, ApiError, has_cause
from pilothouse.controllers.identity.serviceaccount import DESCRIPTOR
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import ControllerContext, ManagedController, Requeue

DEFAULT = "default"


def lacks_account(namespace: Namespace | None, account: ServiceAccount | None) -> bool:
    return namespace is not None and namespace.status.phase == "Active" and account is None


def new_account(namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT, "namespace": namespace}}


class ServiceAccountController(ManagedController):
    """Keys are names of namespaces."""

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
        if not lacks_account(self._namespaces.get(key), self._accounts.get(f"{key}/{DEFAULT}")):
            return None
        record_decision(f"namespace {key} has no ServiceAccount {DEFAULT}")
        try:
            await self._client.create(SERVICE_ACCOUNTS, new_account(key), key)
        except AlreadyExists:
            return None  # the cache is stale
        except ApiError as error:
            if not has_cause(error, "NamespaceTerminating"):
                raise
        return None


build = ServiceAccountController
