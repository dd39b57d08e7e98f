"""Looks at the ConfigMap when it comes or changes, and when a bootstrap token does or goes."""

import msgspec

from pilothouse.api.core import CONFIG_MAPS, SECRETS
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.identity.bootstrap_signer import DESCRIPTOR, MAP_SELECTOR, NAME, PUBLIC, SECRET_SELECTOR
from pilothouse.controllers.identity.bootstrap_signer.decide import signed
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import Controller, ControllerContext, Requeue, RetryLater
from pilothouse.semantics.bootstrap_tokens import NAMESPACE

KEY = f"{PUBLIC}/{NAME}"


def build(context: ControllerContext) -> "BootstrapSigner":
    """The factory of the descriptor."""
    return BootstrapSigner(context)


class BootstrapSigner(Controller):
    """See the package for the promises. There is one key, that of the ConfigMap."""

    def __init__(self, context: ControllerContext) -> None:
        config_maps = context.informers.informer(
            CONFIG_MAPS, namespace=PUBLIC, field_selector=MAP_SELECTOR, keep_raw=True
        )
        secrets = context.informers.informer(SECRETS, namespace=NAMESPACE, field_selector=SECRET_SELECTOR)
        super().__init__(
            DESCRIPTOR.name,
            context.env,
            waits_for=(config_maps, secrets),
            metrics=context.metrics,
            queue_name="bootstrap_signer_queue",
            log=context.log,
        )
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
