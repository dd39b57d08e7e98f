"""Signs the ConfigMap ``cluster-info`` with the bootstrap tokens. Upstream: v1.36
``pkg/controller/bootstrap/bootstrapsigner.go`` and ``util.go``."""

import datetime
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.api.core import CONFIG_MAPS, SECRETS, Secret
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.identity.bootstrap_signer import DESCRIPTOR, NAME, PUBLIC
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.jws import detached_hs256
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater
from pilothouse.semantics.bootstrap_tokens import signing_secret

TEXT = "kubeconfig"
PREFIX = "jws-kubeconfig-"


def signed_data(data: Mapping[str, str], secrets: Iterable[Secret], now: datetime.datetime) -> dict[str, str] | None:
    """The ConfigMap's data with the signatures of all tokens that may sign, and no others. None if there is no
    kubeconfig."""
    text = data.get(TEXT)
    if text is None:
        return None
    desired = {key: value for key, value in data.items() if not key.startswith(PREFIX)}
    for secret in secrets:
        token = signing_secret(secret.metadata.name, secret.data, now)
        if token is not None:
            desired[f"{PREFIX}{token[0]}"] = detached_hs256(text, *token)
    return desired


KEY = f"{PUBLIC}/{NAME}"


class BootstrapSigner(ManagedController):
    """The only key is that of the ConfigMap; every event of it or of a token enqueues it."""

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
        on_any_event(secrets, lambda _secret: self.queue.add(KEY))

    async def reconcile(self, key: str) -> Requeue | None:
        config_map, raw = self._config_maps.get(key), self._config_maps.raw(key)
        if config_map is None:
            return None
        assert raw is not None, "the informer keeps the JSON"
        desired = signed_data(config_map.data, self._secrets.list(), self.env.now())
        if desired is None:
            self.log.info("No key in ConfigMap", v=3, key="kubeconfig", configMap=key)
            return None
        if desired == config_map.data:
            return None
        body = replace_fields(raw, {"data": msgspec.json.encode(desired)})
        differing = sorted(
            name for name in {*desired, *config_map.data} if desired.get(name) != config_map.data.get(name)
        )
        record_decision(
            f"signatures of ConfigMap {key} by the bootstrap tokens that may sign: {len(differing)} differ, "
            f"{len(desired)} "
            "entries in all"
        )
        try:
            await self._client.update(CONFIG_MAPS, NAME, body, PUBLIC)
        except NotFound:
            return None
        except Conflict as error:
            # The cache will usually get a newer version; the retry covers other cases.
            raise RetryLater(str(error)) from error
        return None


build = BootstrapSigner
