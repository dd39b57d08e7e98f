"""Two queues: deleted ServiceAccounts, and token Secrets.

Caches are confirmed before a credential is deleted: an account that is not in the cache is read live, and Secrets are
deleted by uid.
"""

from typing import NamedTuple

import msgspec

from pilothouse.api.core import SECRETS, SERVICE_ACCOUNTS, Secret, ServiceAccount
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.controllers.identity.serviceaccount_token import DESCRIPTOR, TokenOptions
from pilothouse.controllers.identity.serviceaccount_token.decide import (
    is_referenced_account,
    list_token_secrets,
    missing_keys,
    with_token,
    without_reference,
)
from pilothouse.controllers.shared.conflicts import retry_on_conflict
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.controllers.shared.root_authority import read_authority
from pilothouse.env.bounded_files import read_bytes
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.go_text import open_error
from pilothouse.machinery.jws import Signer, load_key
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, TerminalError, WorkerPool, WorkQueue
from pilothouse.runtime.errors import CannotRun
from pilothouse.semantics.service_accounts import ACCOUNT_NAME, ACCOUNT_UID

QUEUE = "serviceaccount_tokens_service"
"""Workers of each of the two queues, as upstream."""
RETRIES = 10
REFERENCE_TRIES, REFERENCE_SECONDS = 10, 0.1
"""Upstream's ``RemoveTokenBackoff``; each pause is up to twice as long."""

_secret = msgspec.json.Decoder(Secret)
_account = msgspec.json.Decoder(ServiceAccount)


class SecretKey(NamedTuple):
    """A token Secret and the account that it named when it was last observed."""

    namespace: str
    name: str
    uid: str
    account: str
    account_uid: str


def build(context: ControllerContext) -> "TokenController":
    """Raises ``CannotRun`` for files that cannot be used."""
    return TokenController(context)


def signer_of(options: TokenOptions) -> Signer:
    """Raises ``CannotRun``."""
    if options.signer is not None:
        return options.signer
    file = options.private_key_file
    try:
        return Signer(load_key(read_bytes(file)))
    except (OSError, ValueError) as error:
        reason = open_error(file, error) if isinstance(error, OSError) else error
        raise CannotRun(
            f"error reading key for service account token controller: error reading private key file {file}: {reason}"
        ) from error


class TokenController(ManagedController):
    """Keys of the base's queue are ``namespace/name/uid`` of accounts."""

    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(TokenOptions)
        self._signer = signer_of(options)
        self._authority = read_authority(options.root_ca_file, options.authority).encode()
        accounts = context.informer(SERVICE_ACCOUNTS)
        secrets = context.informer(SECRETS)
        super().__init__(context, DESCRIPTOR.name, workers=options.workers, queue_name=QUEUE)
        self._client = context.client
        self._accounts = accounts.cache
        self._secrets = secrets.cache
        self._rng = context.env.stream("token references")
        self._touched: WorkQueue[SecretKey] = WorkQueue(context.env, QUEUE, context.metrics)
        self.add_worker_pool(
            WorkerPool(
                f"{DESCRIPTOR.name}-secrets",
                self._touched,
                self._sync_secret,
                workers=options.workers,
                metrics=context.metrics,
                log=context.log,
            )
        )
        on_any_event(accounts, self._queue_service_account)
        on_any_event(secrets, self._queue_secret)

    def _queue_service_account(self, account: ServiceAccount) -> None:
        meta = account.metadata
        self.queue.add(f"{meta.namespace}/{meta.name}/{meta.uid}")

    def _queue_secret(self, secret: Secret) -> None:
        meta = secret.metadata
        name, uid = meta.annotations.get(ACCOUNT_NAME, ""), meta.annotations.get(ACCOUNT_UID, "")
        self._touched.add(SecretKey(meta.namespace, meta.name, meta.uid, name, uid))

    # Accounts

    async def reconcile(self, key: str) -> Requeue | None:
        """Enqueue the Secrets of an account that was deleted.

        Upstream deletes them immediately. But an account that is not in the cache may exist, if the list came from a
        stale server. And a Secret without a uid may belong to the next account with the name.
        """
        namespace, name, uid = key.split("/")
        if is_referenced_account(self._accounts.get(f"{namespace}/{name}"), uid):
            return None
        for secret in list_token_secrets(namespace, name, uid, self._secrets.list(namespace)):
            self.log.info("Service account deleted, removing tokens", v=4, namespace=namespace, serviceaccount=name)
            self._queue_secret(secret)
        return None

    # Secrets

    async def _sync_secret(self, key: SecretKey) -> Requeue | None:
        if not key.account:
            raise TerminalError(f"secret {key.namespace}/{key.name} names no service account")
        secret = self._secrets.get(f"{key.namespace}/{key.name}")
        if secret is None or secret.metadata.uid != key.uid:
            if is_referenced_account(self._accounts.get(f"{key.namespace}/{key.account}"), key.account_uid):
                await self._remove_secret_reference(key)
            return None
        account = await self._get_service_account(key)
        if account is None:
            self.log.info("Service account does not exist, deleting token", v=4, secret=f"{key.namespace}/{key.name}")
            # Retried without limit: the token must not outlive the deleted account.
            record_decision(
                f"ServiceAccount {key.namespace}/{key.account} of the token does not exist: the Secret is deleted"
            )
            try:
                await self._client.delete(SECRETS, key.name, key.namespace, uid=key.uid)
            except (NotFound, Conflict):
                return None  # deleted, perhaps recreated
            return None
        if missing_keys(secret, self._authority):
            await self._ensure_secret_has_token(key, secret, account)
        return None

    async def _get_service_account(self, key: SecretKey) -> ServiceAccount | None:
        """From the cache, else live: it may be newer than the cache."""
        account = self._accounts.get(f"{key.namespace}/{key.account}")
        if is_referenced_account(account, key.account_uid):
            return account
        try:
            account = await self._client.get(SERVICE_ACCOUNTS, key.account, key.namespace)
        except NotFound:
            return None
        return account if is_referenced_account(account, key.account_uid) else None

    async def _ensure_secret_has_token(self, key: SecretKey, secret: Secret, account: ServiceAccount) -> None:
        """Fill it, retrying ten times; after that only a change enqueues it again."""
        try:
            await self._generate_token_if_needed(secret, account)
        except (ApiError, OSError) as error:
            if self._touched.num_requeues(key) < RETRIES:
                raise
            raise TerminalError(f"retried {RETRIES} times to fill it: {error}") from error

    async def _generate_token_if_needed(self, cached: Secret, account: ServiceAccount) -> None:
        namespace, name = cached.metadata.namespace, cached.metadata.name
        try:
            raw = await self._client.get(SECRETS.raw, name, namespace)
        except NotFound:
            return
        live = _secret.decode(raw)
        if live.metadata.resource_version != cached.metadata.resource_version:
            self.log.info("Secret is not up to date, skipping token population", v=2, secret=f"{namespace}/{name}")
            return  # there will be an event
        body = with_token(raw, live, account.metadata, self._authority, self._signer)
        record_decision(
            f"the token Secret of ServiceAccount {namespace}/{account.metadata.name} lacks fields: filled in"
        )
        try:
            await self._client.update(SECRETS.raw, name, body, namespace)
        except (Conflict, NotFound):
            return  # there will be an event

    async def _remove_secret_reference(self, key: SecretKey) -> None:
        async def remove(_attempt: int) -> None:
            try:
                raw = await self._client.get(SERVICE_ACCOUNTS.raw, key.account, key.namespace)
                if not is_referenced_account(_account.decode(raw), key.account_uid):
                    return
                body = without_reference(raw, key.name)
                if body is not None:
                    record_decision(f"Secret {key.namespace}/{key.name} is gone: the reference to it is removed")
                    await self._client.update(SERVICE_ACCOUNTS.raw, key.account, body, key.namespace)
            except NotFound:
                return

        delays = tuple(REFERENCE_SECONDS * (1 + self._rng.random()) for _ in range(REFERENCE_TRIES - 1))
        await retry_on_conflict(remove, delays)
