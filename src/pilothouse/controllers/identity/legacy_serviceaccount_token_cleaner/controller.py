"""A pass over all token Secrets, every 24 hours. Pods are only watched in namespaces with such a Secret, which hardly
any cluster still has."""

from pilothouse.api.core import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Secret
from pilothouse.client import merge_patch
from pilothouse.client.errors import ApiError, Conflict, Forbidden, NotFound
from pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner import (
    DESCRIPTOR,
    PODS_WITH_SECRETS,
    LegacyTokenCleanerOptions,
)
from pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner.decide import (
    Action,
    CleanUpTime,
    account_key,
    decide,
    is_auto_generated,
    is_tracked_long_enough,
    is_unused,
    parse_date,
)
from pilothouse.machinery.causes import begin_sync, current_triggers, record_decision
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, object_key
from pilothouse.semantics.pod_secrets import secrets_of
from pilothouse.semantics.service_accounts import INVALID_SINCE, LAST_USED, TRACKING

PASS = "pass"  # noqa: S105  # the one key there is, no secret
SECONDS = 24 * 3600.0
SYSTEM, SINCE = "kube-system", "since"
ROLE = f"system:controller:{DESCRIPTOR.client_name}"


class LegacyTokenCleaner(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        accounts = context.informer(SERVICE_ACCOUNTS)
        secrets = context.informer(SECRETS)
        super().__init__(context, DESCRIPTOR.name)
        self._period = context.options_as(LegacyTokenCleanerOptions).period
        self._client = context.client
        self._context = context
        self._accounts = accounts.cache
        self._secrets = secrets.cache
        self._is_forbidden = False
        self.queue.add(PASS)

    async def reconcile(self, key: str) -> Requeue | None:
        """One pass. Failures are logged and retried in the next one."""
        at = CleanUpTime(self.env.now(), self._period)
        try:
            if await self._is_tracked_long_enough(at):
                await self._evaluate_tokens(at)
        except NotFound:
            # An API server that does not track usage, such as v1.25, will not start to.
            self.log.info(
                "The API server does not track the use of service account tokens", configMap=f"{SYSTEM}/{TRACKING}"
            )
        except Forbidden as error:
            if not self._is_forbidden:
                # The bootstrap policy has had the role since v1.28, with the tracking that this controller needs.
                self.log.warning(
                    "Not allowed to read since when the API server has tracked the use of tokens: no token "
                    "is cleaned up. Create the ClusterRole and its binding, which API servers before v1.28 do not "
                    "have, or disable the controller",
                    clusterRole=ROLE,
                    permission=f"get configmaps {TRACKING} in {SYSTEM}",
                    disable=f"--controllers=*,-{DESCRIPTOR.name}",
                    err=str(error),
                )
            self._is_forbidden = True
        except (ApiError, OSError) as error:
            self.log.warning("Failed to read the start date of the tracking of tokens, will retry", err=str(error))
        return Requeue(SECONDS)

    async def _is_tracked_long_enough(self, at: CleanUpTime) -> bool:
        config_map = await self._client.get(CONFIG_MAPS, TRACKING, SYSTEM)
        since = parse_date(config_map.data.get(SINCE, ""))
        if since is None:
            self.log.error("ConfigMap has no start date of the tracking of tokens", configMap=f"{SYSTEM}/{TRACKING}")
            return False
        return is_tracked_long_enough(since, at)

    async def _evaluate_tokens(self, at: CleanUpTime) -> None:
        used: dict[str, frozenset[str]] = {}
        for secret in self._secrets.list():
            account = self._accounts.get(account_key(secret))
            if not is_unused(secret, at) or not is_auto_generated(secret, account):
                continue
            namespace = secret.metadata.namespace
            if namespace not in used:
                used[namespace] = await self._get_mounted_secrets(namespace)
            action = decide(secret, account, used[namespace], at)
            try:
                if action is Action.MARK:
                    await self._mark_as_invalid(secret, at)
                elif action is Action.DELETE:
                    await self._delete_secret(secret)
            except (ApiError, OSError) as error:
                self.log.warning(
                    "Failed to clean up a token, will retry", secret=object_key(secret.metadata), err=str(error)
                )

    async def _get_mounted_secrets(self, namespace: str) -> frozenset[str]:
        # From its first such Secret on, the pods of a namespace are watched.
        pods = self._context.informer(PODS_WITH_SECRETS, namespace=namespace)
        await pods.wait_synced()
        return frozenset[str]().union(*map(secrets_of, pods.cache.list(namespace)))

    async def _mark_as_invalid(self, secret: Secret, at: CleanUpTime) -> None:
        meta, today = secret.metadata, at.now.date().isoformat()
        self.log.info(
            "Mark the auto-generated service account token as invalid", invalidSince=today, secret=object_key(meta)
        )
        metadata = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "labels": {INVALID_SINCE: today}}
        self._watch_pods(secret)
        record_decision(
            f"auto-generated token Secret {object_key(meta)} was last used {meta.labels.get(LAST_USED) or 'never'}, "
            "and no "
            f"pod mounts it: invalid since {today}"
        )
        patch = merge_patch({"kind": "Secret", "apiVersion": "v1", "metadata": metadata})
        await self._client.patch(SECRETS.raw, meta.name, patch, meta.namespace)

    async def _delete_secret(self, secret: Secret) -> None:
        meta = secret.metadata
        self.log.info(
            "Delete auto-generated service account token",
            secret=object_key(meta),
            creationTime=meta.creation_timestamp,
            lastUsed=meta.labels.get(LAST_USED, ""),
            invalidSince=meta.labels.get(INVALID_SINCE, ""),
        )
        self._watch_pods(secret)
        record_decision(
            f"auto-generated token Secret {object_key(meta)} was last used {meta.labels.get(LAST_USED) or 'never'} "
            "and has "
            f"been invalid since {meta.labels.get(INVALID_SINCE, '')}: deleted"
        )
        try:
            await self._client.delete(SECRETS, meta.name, meta.namespace, resource_version=meta.resource_version)
        except (NotFound, Conflict):
            return  # deleted, or just changed

    def _watch_pods(self, secret: Secret) -> None:
        begin_sync(self.name, object_key(secret.metadata), current_triggers())


build = LegacyTokenCleaner
