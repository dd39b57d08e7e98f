"""Compaction every five minutes, by one of the servers that share an etcd.

As apiserver's ``pkg/storage/etcd3/compact.go`` (v0.36), so that servers of both kinds cooperate: ``compact_rev_key``
has the revision of the last compaction, and its version is the logical time. The server that increments it first
compacts to the revision that was current one interval ago.
"""

import asyncio

from pilothouse.env import Log
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient, EtcdError

KEY = b"compact_rev_key"

_log = Log("etcd")


class Compactor:
    """The state of compaction in this server."""

    def __init__(self, client: EtcdClient, interval: float) -> None:
        self._client = client
        self._interval = interval
        self._time = 0
        self._revision = 0
        """The revision at the start of the last interval."""
        self.compacted = 0
        """The last compacted revision that this server has observed."""

    async def run(self) -> None:
        """Compact until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.compact()
            except EtcdError as error:
                _log.error("Compaction failed", endpoint=self._client.endpoint.url, error=error)

    async def compact(self) -> None:
        """One interval: compact, or find that another server has. Raises ``EtcdError``."""
        request = messages.TxnRequest(
            compare=[messages.equal_version(KEY, self._time)],
            success=[messages.put(KEY, str(self._revision).encode())],
            failure=[messages.get(KEY)],
        )
        response = await self._client.txn(request, operation="compact")
        previous, self._revision = self._revision, response.header.revision
        if not response.succeeded:
            pairs = response.responses[0].response_range.kvs
            self._time = pairs[0].version if pairs else 0
            if pairs and pairs[0].value.isdigit():
                self.compacted = max(self.compacted, int(pairs[0].value))
            return
        self._time += 1
        if previous:  # not in the first interval
            await self._client.compact(previous)
            self.compacted = previous
            _log.info("Compacted", revision=previous)
