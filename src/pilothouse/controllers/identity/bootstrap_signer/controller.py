"""Looks at the ConfigMap when it comes or changes, and when a bootstrap token does or goes."""

import msgspec

from pilothouse.api.core import CONFIG_MAPS, SECRETS
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.identity.bootstrap_signer import DESCRIPTOR, NAME, PUBLIC
from pilothouse.controllers.identity.bootstrap_signer.decide import signed
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater

KEY = f"{PUBLIC}/{NAME}"


def build(context: ControllerContext) -> "BootstrapSigner":
    """The factory of the descriptor."""
    return BootstrapSigner(context)


class BootstrapSigner(ManagedController):
    """See the package for the promises. There is one key, that of the ConfigMap."""

    def __init__(self, context: ControllerContext) -> None:
        config_maps = context.informer(CONFIG_MAPS)
        secrets = context.informer(SECRETS)
        super().__init__(context, DESCRIPTOR.name, queue_name="bootstrap_signer_queue")
        self._client = context.client
        self._config_maps = config_maps.cache
        self._secrets = secrets.cache
        config_maps.add_handler(
            on_add=lambda _map, _initial: self.queue.add(KEY), on_update=lambda _old, _new: self.queue.add(KEY)
        )
        secrets.add_handler(
            on_add=lambda _secret, _initial: self.queue.add(KEY),
            on_update=lambda _old, _new: self.queue.add(KEY),
            on_delete=lambda _secret, _unknown: self.queue.add(KEY),
        )

    async def reconcile(self, key: str) -> Requeue | None:
        """Have the ConfigMap carry the signatures of the tokens that there are."""
        found, raw = self._config_maps.get(key), self._config_maps.raw(key)
        if found is None:
            return None
        assert raw is not None, "the informer was asked to keep it"
        wanted = signed(found.data, self._secrets.list(), self.env.now())
        if wanted is None:
            self.log.info("No key in ConfigMap", v=3, key="kubeconfig", configMap=key)
            return None
        if wanted == found.data:
            return None
        body = replace_fields(raw, {"data": msgspec.json.encode(wanted)})
        try:
            await self._client.update(CONFIG_MAPS, NAME, body, PUBLIC)
        except NotFound:
            return None
        except Conflict as error:
            # A newer one is about to be shown, as a rule. Nobody else comes by for who waits for nothing.
            raise RetryLater(str(error)) from error
        return None
