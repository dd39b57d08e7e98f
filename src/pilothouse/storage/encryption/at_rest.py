"""Encryption at rest of one store: its providers by resource, which are replaced when the configuration changes.

A store decrypts each value once, when it is read or reported by etcd, and encrypts it once, when it is written.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from pilothouse.env import TaskGroup
from pilothouse.storage.encryption.identity import Identity
from pilothouse.storage.encryption.kmsv2.probe import KmsProbe, KmsUnhealthy
from pilothouse.storage.encryption.transformer import Context, KeyNeeded, Transformer

GroupResource = tuple[str, str]
"""Group and resource; the resource, or both, may be ``*``."""
_ANY = "*"
_IDENTITY = Identity()


class Providers:
    """The transformers of one configuration. ``probes`` are those of its KMS plugins, in the order of the file."""

    def __init__(
        self,
        transformers: Mapping[GroupResource, Transformer],
        probes: Sequence[KmsProbe] = (),
        *,
        close_after: float = 0.0,
    ) -> None:
        """``close_after``: seconds after which calls to the plugins that are in flight are ended."""
        self.probes = tuple(probes)
        self.close_after = close_after
        self._transformers = transformers

    def of(self, group: str, resource: str) -> Transformer | None:
        """The transformer of a resource; None if it is not encrypted."""
        for pattern in ((group, resource), (group, _ANY), (_ANY, _ANY)):
            transformer = self._transformers.get(pattern)
            if transformer is not None:
                return transformer
        return None

    async def check(self) -> None:
        """Check the health of all plugins (``kms-providers``). Raises ``KmsUnhealthy``."""
        errors = []
        for index, probe in enumerate(self.probes):
            try:
                await probe.check()
            except KmsUnhealthy as error:
                errors.append(f"kms-provider-{index}: {error}")
        if errors:
            raise KmsUnhealthy(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    async def run(self) -> None:
        """Probe the plugins periodically, until cancelled."""
        async with TaskGroup() as group:
            for probe in self.probes:
                group.start(probe.run(), name=f"KMS plugin {probe.name}")

    def close(self) -> None:
        """Close the connections."""
        for probe in self.probes:
            probe.service.close()


class EncryptionAtRest:
    """Encrypts and decrypts the values of one store. ``resource_of`` returns the group-resource of a key of the store,
    None for internal keys, which are never encrypted."""

    def __init__(self, providers: Providers, resource_of: Callable[[str], GroupResource | None]) -> None:
        self.on_change: list[Callable[[], None]] = []
        """Called when values that could not be decrypted may be decryptable now."""
        self._resource_of = resource_of
        self._providers = providers
        self._transformer_and_name: dict[GroupResource, tuple[Transformer, str]] = {}
        self._polls: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._connect_probes(providers)

    @property
    def providers(self) -> Providers:
        """The current providers."""
        return self._providers

    def encrypts(self, key: str) -> bool:
        """Whether there are providers for that key of the store."""
        group_resource = self._resource_of(key)
        return group_resource is not None and self._providers.of(*group_resource) is not None

    def to_storage(self, key: str, etcd_key: bytes, data: bytes) -> bytes:
        """The value to write to etcd. Raises ``TransformError``."""
        transformer, resource = self._transformer_of(key)
        return transformer.to_storage(data, Context(etcd_key, resource))

    def from_storage(self, key: str, etcd_key: bytes, data: bytes) -> tuple[bytes, bool]:
        """The decrypted value, and whether it is stale, i.e. must be written again even if it does not change. Raises
        ``TransformError``, and ``KeyNeeded`` if its key must be requested from a plugin first."""
        transformer, resource = self._transformer_of(key)
        return transformer.from_storage(data, Context(etcd_key, resource))

    async def read(self, key: str, etcd_key: bytes, data: bytes) -> tuple[bytes, bool]:
        """``from_storage``, including the request for the key. Raises ``TransformError``."""
        while True:
            try:
                return self.from_storage(key, etcd_key, data)
            except KeyNeeded as needed:
                await needed.fetch()

    def read_blocking(self, key: str, etcd_key: bytes, data: bytes) -> tuple[bytes, bool]:
        """``read`` without an event loop, at startup. Raises ``TransformError``."""
        while True:
            try:
                return self.from_storage(key, etcd_key, data)
            except KeyNeeded as needed:
                needed.fetch_blocking()

    def _transformer_of(self, key: str) -> tuple[Transformer, str]:
        group_resource = self._resource_of(key)
        if group_resource is None:
            return _IDENTITY, ""
        entry = self._transformer_and_name.get(group_resource)
        if entry is None:
            group, resource = group_resource
            name = f"{resource}.{group}" if group else resource
            entry = self._transformer_and_name[group_resource] = (
                self._providers.of(group, resource) or _IDENTITY,
                name,
            )
        return entry

    # Lifecycle

    def _notify(self) -> None:
        for hook in self.on_change:
            hook()

    def start(self) -> None:
        """Probe plugins in the background from now on, in the running loop."""
        if self._polls is None and self._providers.probes:
            self._polls = asyncio.create_task(self._providers.run(), name="KMS plugins")

    def replace(self, providers: Providers) -> None:
        """Use other providers from now on; the old ones are closed when their calls in flight are done."""
        old, polls = self._providers, self._polls
        self._providers, self._polls = providers, None
        self._transformer_and_name.clear()
        self._connect_probes(providers)
        self.start()

        async def end() -> None:
            try:
                await asyncio.sleep(old.close_after)
            finally:
                if polls is not None:
                    polls.cancel()
                old.close()

        task = asyncio.create_task(end(), name="old KMS plugins")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        self._notify()

    async def close(self) -> None:
        """Stop background tasks, and close all connections."""
        tasks = [*self._closing, *(() if self._polls is None else (self._polls,))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._providers.close()

    def _connect_probes(self, providers: Providers) -> None:
        for probe in providers.probes:
            probe.on_recovered = self._notify
