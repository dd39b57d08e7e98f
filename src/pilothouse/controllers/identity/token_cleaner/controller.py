"""Syncs a token when it is added or changes, and when it expires. Upstream: v1.36
``pkg/controller/bootstrap/tokencleaner.go``."""

from pilothouse.api.core import SECRETS, Secret
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.identity.token_cleaner import DESCRIPTOR
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater, object_key
from pilothouse.semantics.bootstrap_tokens import EXPIRATION, NAMESPACE, seconds_left, text_of


class TokenCleaner(ManagedController):
    """Keys are those of Secrets."""

    def __init__(self, context: ControllerContext) -> None:
        secrets = context.informer(SECRETS)
        super().__init__(context, DESCRIPTOR.name, queue_name="token_cleaner")
        self._client = context.client
        self._secrets = secrets.cache
        secrets.add_handler(
            on_add=lambda secret, _initial: self._enqueue(secret),
            on_update=lambda _old, secret: self._enqueue(secret),
        )

    def _enqueue(self, secret: Secret) -> None:
        self.queue.add(object_key(secret.metadata))

    async def reconcile(self, key: str) -> Requeue | None:
        """Delete the token if it has expired, or requeue it for when it will."""
        secret = self._secrets.get(key)
        if secret is None:
            return None
        remaining = seconds_left(text_of(secret.data, EXPIRATION), self.env.now())
        if remaining is None:
            return None
        if remaining > 0:
            return Requeue(remaining)
        self.log.info("Deleting expired secret", v=3, secret=key)
        record_decision(f"bootstrap token Secret {key} has expired {-remaining:.0f} s ago")
        try:
            await self._client.delete(SECRETS, secret.metadata.name, NAMESPACE, uid=secret.metadata.uid)
        except NotFound:
            return None
        except Conflict as error:
            # It was recreated, and the cache will get that; or the 404 did not name the object.
            raise RetryLater(str(error)) from error
        return None


build = TokenCleaner
