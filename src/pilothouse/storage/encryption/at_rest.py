"""The providers of all resources, as a store asks them, and their exchange when the configuration changes.

A store decrypts each value once, when it reads it or etcd reports it, and encrypts it once, when it is sent.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from pilothouse.env import TaskGroup
from pilothouse.storage.encryption.identity import Identity
from pilothouse.storage.encryption.kmsv2.probe import KmsProbe, KmsUnhealthy
from pilothouse.storage.encryption.transformer import Context, KeyNeeded, Transformer

GroupResource = tuple[str, str]
"""Group and resource; the resource may be ``*``, and then the group, too."""
_ANY = "*"
_IDENTITY = Identity()


class Providers:
    """What one configuration says. ``probes`` are those of its plugins, in the order of the file."""

    def __init__(
        self,
        transformers: Mapping[GroupResource, Transformer],
        probes: Sequence[KmsProbe] = (),
        *,
        close_after: float = 0.0,
    ) -> None:
        """``close_after``: seconds in which calls to the plugins end that are under way."""
        self.probes = tuple(probes)
        self.close_after = close_after
        self._transformers = transformers

    def of(self, group: str, resource: str) -> Transformer | None:
        """What encrypts a resource; None if nothing does."""
        for each in ((group, resource), (group, _ANY), (_ANY, _ANY)):
            found = self._transformers.get(each)
            if found is not None:
                return found
        return None

    async def check(self) -> None:
        """Whether all plugins are healthy (``kms-providers``). Raises ``KmsUnhealthy``."""
        errors = []
        for at, probe in enumerate(self.probes):
            try:
                await probe.check()
            except KmsUnhealthy as error:
                errors.append(f"kms-provider-{at}: {error}")
        if errors:
            raise KmsUnhealthy(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    async def run(self) -> None:
        """Ask the plugins again and again, until cancelled."""
        async with TaskGroup() as group:
            for probe in self.probes:
                group.start(probe.run(), name=f"KMS plugin {probe.name}")

    def close(self) -> None:
        """Close the connections."""
        for probe in self.probes:
            probe.service.close()


class EncryptionAtRest:
    """Encrypts and decrypts the values of one store. ``resource_of`` gives group and resource of a key of the store,
    None for what no API shows, which is never encrypted."""

    def __init__(self, providers: Providers, resource_of: Callable[[str], GroupResource | None]) -> None:
        self.on_change: Callable[[], None] = lambda: None
        """Called when what could not be decrypted may be now."""
        self._resource_of = resource_of
        self._providers = providers
        self._known: dict[GroupResource, tuple[Transformer, str]] = {}
        self._polls: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._listen(providers)

    @property
    def providers(self) -> Providers:
        """Those in use."""
        return self._providers

    def encrypts(self, key: str) -> bool:
        """Whether there are providers for what is under that key of the store."""
        found = self._resource_of(key)
        return found is not None and self._providers.of(*found) is not None

    def to_storage(self, key: str, etcd_key: bytes, data: bytes) -> bytes:
        """What etcd is to have. Raises ``TransformError``."""
        transformer, resource = self._of(key)
        return transformer.to_storage(data, Context(etcd_key, resource))

    def from_storage(self, key: str, etcd_key: bytes, data: bytes) -> tuple[bytes, bool]:
        """The value, and whether it is to be written again even if it stays as it is. Raises ``TransformError``, and
        ``KeyNeeded`` when the key has to be asked for first."""
        transformer, resource = self._of(key)
        return transformer.from_storage(data, Context(etcd_key, resource))

    async def read(self, key: str, etcd_key: bytes, data: bytes) -> tuple[bytes, bool]:
        """``from_storage``, with the key being asked for. Raises ``TransformError``."""
        while True:
            try:
                return self.from_storage(key, etcd_key, data)
            except KeyNeeded as needed:
                await needed.fetch()

    def read_blocking(self, key: str, etcd_key: bytes, data: bytes) -> tuple[bytes, bool]:
        """The same without a loop, at the start. Raises ``TransformError``."""
        while True:
            try:
                return self.from_storage(key, etcd_key, data)
            except KeyNeeded as needed:
                needed.fetch_blocking()

    def _of(self, key: str) -> tuple[Transformer, str]:
        found = self._resource_of(key)
        if found is None:
            return _IDENTITY, ""
        known = self._known.get(found)
        if known is None:
            group, resource = found
            name = f"{resource}.{group}" if group else resource
            known = self._known[found] = (self._providers.of(group, resource) or _IDENTITY, name)
        return known

    # Life

    def start(self) -> None:
        """Ask plugins in the background from now on, on the running loop."""
        if self._polls is None and self._providers.probes:
            self._polls = asyncio.create_task(self._providers.run(), name="KMS plugins")

    def replace(self, providers: Providers) -> None:
        """Use other providers from now on; the old ones end once the calls that they have under way are over."""
        old, polls = self._providers, self._polls
        self._providers, self._polls = providers, None
        self._known.clear()
        self._listen(providers)
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
        self.on_change()

    async def close(self) -> None:
        """End what is done in the background, and close all connections."""
        tasks = [*self._closing, *(() if self._polls is None else (self._polls,))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._providers.close()

    def _listen(self, providers: Providers) -> None:
        for probe in providers.probes:
            probe.on_recovered = lambda: self.on_change()
