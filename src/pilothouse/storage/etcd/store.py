"""``EtcdStore``: a store whose state is in etcd, and that other servers write as well.

Everything is kept in memory, as in the other stores, and changes in the order of etcd's revisions: by one watch, and by
this server's own writes when etcd has answered and nothing before them is missing. ``stage`` checks a write against the
cache; ``commit`` has etcd check it again, with upstream's compare (the mod revision of the key), and returns when it is
visible. If another server wrote first, ``commit`` raises ``Mismatch``, and the cache is up to date.

Until it is committed a write has a provisional revision, larger than any of etcd; then it gets etcd's own.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Self

from pilothouse.env import Env, Log
from pilothouse.storage.errors import CommitFailed, Compacted, Mismatch, StoreClosed, StoreError, StoreUnavailable
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient, EtcdError, read_blocking
from pilothouse.storage.etcd.codecs import Codec, Keys
from pilothouse.storage.etcd.compaction import Compactor
from pilothouse.storage.etcd.follower import Follower, Stale
from pilothouse.storage.etcd.health import Check, health_checks
from pilothouse.storage.etcd.leases import LeaseManager
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.pages import PastStore, key_of, page_request, read_all, read_all_async
from pilothouse.storage.etcd.progress_requester import ProgressRequester
from pilothouse.storage.etcd.transactions import KnownPair, Transaction, Write
from pilothouse.storage.etcd.values import Values
from pilothouse.storage.history import KEPT, Retention
from pilothouse.storage.records import Change, Record, Staged
from pilothouse.storage.store import OnRequest, Store
from pilothouse.storage.watchers import resource_end

if TYPE_CHECKING:
    from pilothouse.storage.encryption.at_rest import EncryptionAtRest

_PROVISIONAL = 1 << 62
"""The first provisional revision."""
_DECODED_PER_TURN = 20
"""Maximum number of values of an earlier revision that are decoded in one iteration of the loop."""
_CATCH_UP_SECONDS = 10.0
"""Timeout until the watch has reported what etcd has stored. Upstream waits three seconds for its watch cache, and then
reads from etcd."""
_MAX_IN_FLIGHT = 500
"""Maximum number of concurrent transactions: a bound, near the 600 requests that kube-apiserver handles at once
(``--max-requests-inflight`` and ``--max-mutating-requests-inflight``)."""
_MAX_FAILED_KEYS = 10_000
"""Maximum number of keys whose last failure is kept: far more than fail while one request is handled."""
_TURN_SECONDS = 0.004
"""Values that others have written are decoded in slices of this duration; in between other tasks run."""
_REVISIONS_PER_CHECK = 8
"""The clock is read once for so many revisions: reading it for each one is measurable."""
_WATCH = "watch of etcd"
_RETRY_SECONDS = 10.0
"""Seconds between two attempts to decrypt values that could not be decrypted, if the error is temporary."""
_RETRY_DELAYS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds before a broken watch is resumed; the last one for all further attempts."""

_log = Log("etcd")


class EtcdStore(Store):
    """A store on etcd, shared with other servers. Create it with ``open``; ``start`` it in the loop, ``close`` it."""

    expires = True
    is_shared = True

    def __init__(
        self,
        env: Env,
        client: EtcdClient,
        keys: Keys,
        values: Values,
        options: EtcdOptions,
        *,
        records: Iterable[Record],
        revision: int,
        retention: Retention,
        lasting: Callable[[str], float],
    ) -> None:
        super().__init__(env, records=records, revision=revision, retention=retention, quota=None)
        self.compacted = revision
        self._next = _PROVISIONAL
        self.client = client
        self.keys = keys
        self.values = values
        self._options = options
        self._root = keys.root.encode()
        self._lasting = lasting
        self._leases: dict[int, LeaseManager] = {}
        """By the seconds that they are for."""
        self._follower = Follower(client, self._root, self._receive, self._advance, lambda: len(self._in_flight))
        self._compactor = Compactor(client, options.compaction_interval)
        self.tasks: list[asyncio.Task[None]] = []
        """The work in the background, once it is started."""
        self._open_transaction: Transaction | None = None
        """The transaction to which writes are added that are staged now."""
        self._prior: Staged | None = None
        """The newest staged write of the key that is being staged."""
        self.on_stage.append(self._add_to_transaction)
        self._transaction_of: dict[Staged, Transaction] = {}
        self._newest_of: dict[str, Transaction] = {}
        """The last transaction in flight that writes a key."""
        self._in_flight: dict[bytes, list[Write]] = {}
        """The writes that were or are about to be sent, by key in etcd: to recognize their events."""
        self._last_failures: dict[str, int] = {}
        """The value of ``failed_writes`` at the last failure of a key."""
        self._sending = asyncio.Semaphore(_MAX_IN_FLIGHT)
        self._size: int | None = None
        self._barrier: asyncio.Task[None] | None = None
        """The read of etcd's revision for ``catch_up`` that is being carried out, or was last."""
        self._next_barrier: asyncio.Task[None] | None = None
        """The one that follows it, for callers that have arrived since it began."""
        self.is_reachable = False
        """Whether the watch is up."""
        self._health_checks = health_checks(client, self._root, options, env.monotonic)
        self._progress_requester = ProgressRequester(
            self._follower.request_progress, lambda: self._follower.last_event, self._time_out_wait, _CATCH_UP_SECONDS
        )
        self._retry = asyncio.Event()
        """Set when values that could not be decrypted may be decryptable."""

    @classmethod
    def open(
        cls,
        env: Env,
        options: EtcdOptions,
        keys: Keys,
        codec: Codec,
        *,
        retention: Retention = KEPT,
        lasting: Callable[[str], float] = lambda _key: 0.0,
        encryption: "EncryptionAtRest | None" = None,
    ) -> Self:
        """Read the state of etcd. ``lasting`` returns for how many seconds a key is kept, 0 without limit.

        Raises ``StoreUnavailable`` if no member responds, ``ValueError`` for invalid options.
        """
        client = EtcdClient(options)
        root = keys.root.encode()
        pairs, revision = read_blocking(options, lambda send: read_all(send, root))
        values = Values(codec, encryption)
        keyed = [(key, pair) for pair in pairs if (key := key_of(keys, pair)) is not None]
        records = [
            Record(key, values.decode_blocking(key, pair), pair.mod_revision, pair.create_revision)
            for key, pair in keyed
        ]
        return cls(
            env,
            client,
            keys,
            values,
            options,
            records=records,
            revision=revision,
            retention=retention,
            lasting=lasting,
        )

    def start(self) -> None:
        """Follow etcd from now on. Safe to call again."""
        if self.tasks or self._closed:
            return
        if self.values.encryption is not None:
            self.values.encryption.on_change.append(self._retry.set)
            self.values.encryption.start()
            self._start_task(self._retry_unreadable(), "unreadable values of etcd")
        self._start_task(self._follow(), _WATCH)
        self._start_task(self._monitor_size(), "size of etcd")
        if self._options.compaction_interval:
            self._start_task(self._compactor.run(), "compaction of etcd")

    def _start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._task_ended)
        self.tasks.append(task)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        """One of ``tasks`` fails only by a bug. Without the watch the state is no longer updated, and the server must
        not be reported healthy."""
        if not task.cancelled() and (error := task.exception()) is not None:
            name = task.get_name()
            if name == _WATCH:
                self.is_reachable = False
            _log.exception("A task of the store has failed; restart this server", error, task=name)

    # Writing

    def stage(
        self,
        key: str,
        make: Callable[[int], bytes] | None,
        *,
        expected: int | None = None,
        last: Callable[[int], bytes] | None = None,
    ) -> Staged:
        """As in every store; writes that hooks stage in the meantime are part of the same transaction."""
        outer = self._open_transaction
        if outer is None:
            self._open_transaction = Transaction()
        self._prior = self._newest_staged.get(key)
        try:
            return super().stage(key, make, expected=expected, last=last)
        finally:
            self._open_transaction = outer

    def _add_to_transaction(self, staged: Staged) -> None:
        """Assign a transaction to a write, before any other hook is called."""
        key, transaction = staged.change.key, self._open_transaction
        assert transaction is not None, "this is called by ``stage``"
        if transaction.has(key):
            transaction = Transaction()
        transaction.writes.append(Write(staged, self._prior, self.keys.etcd_key(key).encode()))
        self._transaction_of[staged] = transaction
        predecessor = self._newest_of.get(key)
        if predecessor is not None and predecessor is not transaction:
            transaction.after.append(predecessor)
            if self._prior is not None:
                predecessor.dependents.append(transaction)
        self._newest_of[key] = transaction

    async def commit(self, staged: Staged) -> None:
        """Return once etcd has stored the write, and it is visible here.

        Raises ``Mismatch`` if another server wrote first, ``StoreUnavailable`` if etcd does not respond or accepts no
        writes; then the result of the write is unknown until the next response.
        """
        if staged.committed:
            return
        if staged.failure:
            raise CommitFailed(staged.failure)
        if self._closed:
            raise StoreClosed("the store is closed")
        transaction = self._transaction_of[staged]
        sent = self._send_all()
        assert transaction.task is not None, "everything that is staged is sent"
        failure = await asyncio.shield(transaction.task)
        for other in sent:
            if not other.done():
                # Nobody waits for these: they are sent with this one, whatever their result.
                await asyncio.wait([other])
        if failure is not None:
            raise failure

    async def read_at_revision(self, prefix: str, revision: int, *, after: str = "", limit: int = 0) -> Store:
        """Read the state under the prefix at an earlier revision, after a key, and no more than a page. Raises
        ``Compacted``, ``StoreUnavailable``."""
        root = self.keys.etcd_key(f"{prefix}x").removesuffix("x").encode()  # ``etcd_key`` takes keys, not prefixes
        begin = self.keys.etcd_key(after).encode() if len(after) > len(prefix) else None
        remaining = 0
        try:
            if limit:
                page = page_request(root, begin, revision)
                page.limit = limit
                response = await self.client.range(page, kind=prefix[: resource_end(prefix)])
                pairs, remaining = list(response.kvs), response.count - len(response.kvs)
            else:
                pairs, _revision = await read_all_async(self.client, root, revision, begin)
        except EtcdError as error:
            if error.is_compacted:
                raise Compacted(revision, self.compacted) from None
            raise
        records = []
        for index, pair in enumerate(pairs):
            if index % _DECODED_PER_TURN == _DECODED_PER_TURN - 1:
                await asyncio.sleep(0)
            key = key_of(self.keys, pair)
            if key is not None:
                value = await self.values.decode_past(key, pair)
                records.append(Record(key, value, pair.mod_revision, pair.create_revision))
        return PastStore(self._env, records, revision, remaining, has_unreadable=self.has_unreadable)

    async def responds(self, check: Check) -> bool:
        """Whether the watch is connected, and etcd responds in time."""
        return await self._health_checks[check].responds() and self.is_reachable

    def observe(self, on_request: OnRequest) -> None:
        """Call ``on_request`` for each request to etcd."""
        self.client.observe = on_request

    @property
    def has_unreadable(self) -> bool:
        """Whether there may be values that can't be read."""
        return self.values.has_unreadable

    async def is_stale(self, record: Record) -> bool:
        """Whether a record must be written again even if it does not change, because it is encrypted differently than
        it would be now. Without encryption etcd is not read. Raises ``StoreUnavailable``."""
        encryption = self.values.encryption
        if encryption is None or not encryption.encrypts(record.key):
            return False
        pair = await self._pair(record.key, record.key[: resource_end(record.key)])
        # A record that has changed in the meantime counts as stale: then the write fails, and is retried.
        return pair is None or pair.mod_revision != record.revision or await self.values.is_stale(record.key, pair)

    async def _pair(self, key: str, kind: str = "") -> Any:
        response = await self.client.range(messages.RangeRequest(key=self.keys.etcd_key(key).encode()), kind=kind)
        return response.kvs[0] if response.kvs else None

    async def _retry_unreadable(self) -> None:
        """Decrypt values that could not be decrypted: immediately when the configuration has changed or a plugin is
        healthy again, and periodically those that a plugin has failed to decrypt."""
        unreadable = self.values.unreadable
        while True:
            try:
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._retry.wait()
                keys = [*unreadable]
            except TimeoutError:
                keys = [key for key, may_pass in unreadable.items() if may_pass]
            self._retry.clear()
            for key in keys:
                try:
                    if not await self._retry_decryption(key):
                        break  # it would be the same with the others, and each costs a call
                except EtcdError as error:
                    _log.warning("etcd can't be read", error=error)
                    break

    async def _retry_decryption(self, key: str) -> bool:
        """Publish a value that could not be decrypted, if it can be now. Returns whether the plugins respond."""
        pair = await self._pair(key)
        record = self._records.get(key)
        if pair is None or record is None or pair.mod_revision != record.revision:
            return True  # it has changed, as the watch reports
        value = await self.values.decode(key, pair)
        if key in self.values.unreadable:
            return not self.values.unreadable[key]
        if self._records.get(key) is record:
            self._publish_decrypted(Record(key, value, record.revision, record.created))
        return True

    def _publish_decrypted(self, record: Record) -> None:
        """Replace an unreadable value by the decrypted one, without an event, as if it had always been readable; hooks
        of the store are called as for a new object."""
        self._records[record.key] = record
        prefix = record.key[: resource_end(record.key)]
        for change in self._collections[prefix].changes:
            if change.revision == record.revision and change.key == record.key:
                change.value, change.memo = record.value, None
        changes = [Change(record.revision, record.key, "ADDED", record.value, None)]
        self._call_hooks(self.on_commit, changes)
        self._call_hooks(self.on_commit_of.get(prefix, []), changes)

    async def flush(self) -> None:
        """Return when all staged writes are decided."""
        self._send_all()
        tasks = {transaction.task for transaction in self._transaction_of.values() if transaction.task is not None}
        if tasks:
            await asyncio.wait(tasks)

    async def commit_staged(self) -> list[StoreError]:
        """Commit the staged writes that nobody has committed; returns their errors, once they are decided."""
        sent = self._send_all()
        if sent:
            await asyncio.wait(sent)
        return [error for task in sent if (error := task.result()) is not None]

    async def wait_until_decided(self, key: str) -> None:
        """Return when the staged writes of the key are decided."""
        transaction = self._newest_of.get(key)
        if transaction is not None:
            self._send_all()
            assert transaction.task is not None, "everything that is staged is sent"
            await asyncio.wait([transaction.task])

    def has_failed_since(self, key: str, since: int) -> bool:
        """Whether a staged write of the key has failed since ``failed_writes`` had that value."""
        return self._last_failures.get(key, 0) > since

    def _send_all(self) -> "list[asyncio.Task[StoreError | None]]":
        """Start to commit the staged writes."""
        self.start()
        loop = asyncio.get_running_loop()
        queue, self._queue = self._queue, []
        sent: list[asyncio.Task[StoreError | None]] = []
        earlier = None
        for staged in queue:
            transaction = self._transaction_of[staged]
            if transaction.task is None:
                if earlier is not None:
                    transaction.previous = earlier  # writes that are committed together keep their order
                transaction.task = loop.create_task(self._run_transaction(transaction))
                sent.append(transaction.task)
                earlier = transaction
        return sent

    async def _run_transaction(self, transaction: Transaction) -> StoreError | None:
        """Write to etcd, and wait for the watch; returns the error."""
        failure: StoreError | None
        if transaction.previous is not None:
            assert transaction.previous.task is not None, "it was staged, and so sent, before"
            await asyncio.wait([transaction.previous.task])
            earlier_failure = transaction.previous.failure
            if earlier_failure is not None and transaction.failure is None:
                conflicted = isinstance(earlier_failure, Mismatch)
                self._abort(transaction, self._mismatch(transaction) if conflicted else earlier_failure)
        for earlier in transaction.after:
            assert earlier.task is not None, "it was staged, and so sent, before"
            if not earlier.task.done():
                await asyncio.wait([earlier.task])
        transaction.after.clear()  # otherwise each would keep all earlier ones in memory
        transaction.previous = None
        if transaction.failure is not None:
            self._finish(transaction)
            return transaction.failure
        try:
            self._encode(transaction)
            async with self._sending:
                failure = await self._write(transaction)
        except StoreError as error:
            failure = error
        except BaseException as error:
            # A bug. Later writes must not be checked against this one, which may never be stored.
            self._abort(transaction, CommitFailed(repr(error)))
            raise
        finally:
            self._finish(transaction)
        if failure is not None:
            self._abort(transaction, failure)
        return failure

    def _encode(self, transaction: Transaction) -> None:
        """Raises ``TransformError`` if a value cannot be encrypted."""
        for write in transaction.writes:
            staged = write.staged
            if staged.record is not None:
                write.data = self.values.encode(staged.change.key, write.etcd_key, staged.record.value)
            self._in_flight.setdefault(write.etcd_key, []).append(write)

    async def _write(self, transaction: Transaction) -> StoreError | None:
        writes = transaction.writes
        primary = writes[0]  # that ``stage`` was called for; hooks have added the others
        ttl = self._lasting(primary.staged.change.key) if primary.data is not None else 0.0
        lease = await self._lease(int(ttl)) if ttl else 0
        request = messages.TxnRequest(
            compare=[messages.unchanged(write.etcd_key, write.expected) for write in writes],
            success=[
                messages.delete(write.etcd_key)
                if write.data is None
                else messages.put(write.etcd_key, write.data, lease if write is primary else 0)
                for write in writes
            ],
        )
        kind = primary.staged.change.type
        operation = "create" if kind == "ADDED" else "update" if kind == "MODIFIED" else "delete"
        response = await self.client.txn(request, operation=operation, kind=primary.staged.resource)
        revision = response.header.revision
        if response.succeeded:
            # It is this transaction's own revision: the first write always changes something, since ``stage`` rejects
            # the deletion of a missing key.
            self._follower.add_own_events(revision, transaction.events(revision))
        await self._wait_for_revision(revision, has_event=response.succeeded)
        if response.succeeded:
            if not primary.staged.committed:
                self._adopt_stored(writes, revision)
            return None
        # It may concern a key that was staged with the write; then that can be retried.
        return self._mismatch(transaction)

    def _adopt_stored(self, writes: list[Write], revision: int) -> None:
        """Give writes the revision that etcd has stored them with, though their events were never received: everything
        was read again (``_relist``), which shows neither who has written a value nor what it has replaced."""
        for write in writes:
            staged, change = write.staged, write.staged.change
            # What ``stage`` saw of a write before it was provisional, too.
            old = change.old if write.prior is None else write.prior.record
            change.value = self.values.codec.with_revision(change.value, change.revision, revision)
            change.revision, change.old = revision, old
            if staged.record is not None:
                staged.record = Record(change.key, change.value, revision, revision if old is None else old.created)
            staged.committed = True
            if self._newest_staged.get(change.key) is staged:
                del self._newest_staged[change.key]

    async def _lease(self, ttl: int) -> int:
        manager = self._leases.get(ttl)
        if manager is None:
            manager = self._leases[ttl] = LeaseManager(
                self.client.grant, self._env.monotonic, self._options.lease_reuse_seconds
            )
        return await manager.lease(ttl)

    def _mismatch(self, transaction: Transaction) -> Mismatch:
        """The conflict of a transaction that etcd has rejected, or that was checked against one that has failed: what
        that one expects is a provisional revision, which means nothing to the client."""
        write = transaction.writes[0]
        key = write.staged.change.key
        return Mismatch(key, None if transaction.failure is not None else write.expected, self._records.get(key))

    def _finish(self, transaction: Transaction) -> None:
        """The result of a transaction is known: events no longer concern it, and later writes do not wait for it."""
        for write in transaction.writes:
            key = write.staged.change.key
            in_flight = self._in_flight.get(write.etcd_key)
            if in_flight is not None and write in in_flight:
                in_flight.remove(write)
                if not in_flight:
                    del self._in_flight[write.etcd_key]
            if self._newest_of.get(key) is transaction:
                del self._newest_of[key]
            self._transaction_of.pop(write.staged, None)

    def _abort(self, transaction: Transaction, failure: StoreError) -> None:
        """Drop a transaction, and all that were checked against it, immediately: the next staged writes must not build
        on them."""
        transaction.failure = failure
        for write in transaction.writes:
            staged = write.staged
            staged.failure = str(failure)
            if self._newest_staged.get(staged.change.key) is staged:
                del self._newest_staged[staged.change.key]
            self.failed_writes += 1
            self._last_failures.pop(staged.change.key, None)
            self._last_failures[staged.change.key] = self.failed_writes
            if len(self._last_failures) > _MAX_FAILED_KEYS:
                del self._last_failures[next(iter(self._last_failures))]
        for dependent in transaction.dependents:
            if dependent.failure is None:
                self._abort(dependent, self._mismatch(dependent) if isinstance(failure, Mismatch) else failure)

    # Following

    async def catch_up(self) -> None:
        """Wait until all that was stored when this was called is visible (a consistent read from the cache).

        Callers that arrive during a request share the next one. Raises ``StoreUnavailable``.
        """
        if self._closed:
            raise StoreClosed("the store is closed")
        self.start()
        if self._next_barrier is None:
            self._next_barrier = asyncio.create_task(self._wait_for_current_revision(self._barrier))
        await asyncio.shield(self._next_barrier)

    async def _wait_for_current_revision(self, earlier: "asyncio.Task[None] | None") -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._barrier, self._next_barrier = self._next_barrier, None
        response = await self.client.range(messages.RangeRequest(key=self._root, keys_only=True))
        await self._wait_for_revision(response.header.revision)

    async def _wait_for_revision(self, revision: int, *, has_event: bool = False) -> None:
        """Wait until a revision that etcd has is visible here. ``has_event``: it is a change under the root."""
        if self.revision >= revision:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._awaited.append((revision, waiter))
        self._progress_requester.add(waiter, revision, loop, has_event=has_event)
        try:
            await waiter
        finally:
            self._progress_requester.remove(waiter)

    def _time_out_wait(self, waiter: "asyncio.Future[None]", revision: int) -> None:
        if not waiter.done():
            message = f"Timeout: Too large resource version: {revision}, current: {self.revision}"
            waiter.set_exception(StoreUnavailable(message))

    def size(self) -> int | None:
        """The size in bytes of the database of the last member that was used."""
        return self._size

    async def _monitor_size(self) -> None:
        while self._options.db_metric_poll_interval:
            try:
                self._size = await self.client.database_size()
            except EtcdError as error:
                _log.info("The size of the etcd database cannot be read", reason=error, v=2)
            await asyncio.sleep(self._options.db_metric_poll_interval)

    async def _follow(self) -> None:
        failures = 0
        while not self._closed:
            endpoint = self.client.endpoint
            try:
                await self._follower.follow(self.revision)
            except Stale as error:
                _log.warning("The watch can't go on; everything is read again", reason=error)
                await self._relist()
            except EtcdError as error:
                old_revision, self.is_reachable = self.revision, False
                _log.warning("The watch of etcd has ended", endpoint=endpoint.url, error=error)
                await asyncio.sleep(_RETRY_DELAYS[min(failures, len(_RETRY_DELAYS) - 1)])
                failures = failures + 1 if old_revision == self.revision else 0
                self.client.fail_over(endpoint)

    async def _relist(self) -> None:
        """Read everything again, and publish the differences as changes. The changes in between are unknown, so
        watchers must start again."""
        try:
            pairs, revision = await read_all_async(self.client, self._root)
        except EtcdError as error:
            _log.warning("etcd can't be read", error=error)
            await asyncio.sleep(_RETRY_DELAYS[-1])
            return
        changes: list[Staged] = []
        keys: set[str] = set()
        for pair in pairs:
            key = key_of(self.keys, pair)
            if key is None:
                continue
            keys.add(key)
            current = self._records.get(key)
            if current is None or current.revision != pair.mod_revision:
                changes.append(self._staged(key, pair, None, await self.values.decode(key, pair)))
        for key in [key for key in self._records if key not in keys]:
            changes.append(self._staged(key, KnownPair(self.keys.etcd_key(key).encode(), b"", revision), None, None))
        changes.sort(key=lambda staged: staged.revision)
        if changes:
            self._apply(changes)
        self._advance(revision)
        self.compact(revision)
        for watcher in self._watchers:
            watcher.close()

    async def _receive(self, events: list[Any]) -> int:
        """Publish the events of etcd, in order, each revision atomically; returns how many watchers were notified."""
        delivered = self._watchers.deliveries
        group: dict[str, Staged] = {}
        began = self._env.monotonic()
        revision = revisions = 0
        for event in events:
            pair = event.kv
            if pair.mod_revision != revision:
                revision = pair.mod_revision
                revisions += 1
                if revisions % _REVISIONS_PER_CHECK == 0 and self._env.monotonic() - began > _TURN_SECONDS:
                    self._publish(group)
                    await asyncio.sleep(0)
                    began = self._env.monotonic()
            key = key_of(self.keys, pair)
            if key is None:
                continue
            if key in group:
                # The next change starts from the result of this one. Its own revision is published as a whole, later.
                current = {other: staged for other, staged in group.items() if staged.revision == revision}
                self._publish({other: staged for other, staged in group.items() if staged.revision < revision})
                group = current
            deleted = event.type == messages.DELETE
            if revision > self.revision and not (deleted and key not in self._records):
                own_write = self._own_write(key, pair, event.type)
                value = None if deleted or own_write is not None else await self.values.decode(key, pair)
                group[key] = self._staged(key, pair, own_write, value)
        self._publish(group)
        self._advance(revision)
        return self._watchers.deliveries - delivered

    def _publish(self, group: dict[str, Staged]) -> None:
        if group:
            self._apply([*group.values()])
            group.clear()

    def _own_write(self, key: str, pair: Any, type_: int) -> Write | None:
        """The write of this server that an event is about: with the same result, and the same state before it. Another
        server may have deleted the object in a state that this one's deletion does not expect."""
        for write in self._in_flight.get(pair.key, ()):
            if not write.staged.committed and write.data == (None if type_ == messages.DELETE else pair.value):
                record = self._records.get(key)
                if write.expected == (0 if record is None else record.revision):
                    return write
        return None

    def _staged(self, key: str, pair: Any, write: Write | None, value: bytes | None) -> Staged:
        """The change of a key for the store: a write of this server, or a value that another one has written, None if
        it was deleted."""
        old, revision = self._records.get(key), pair.mod_revision
        if write is not None:
            staged = write.staged
            change = staged.change
            deleted = write.data is None
            versioned_value = self.values.codec.with_revision(change.value, change.revision, revision)
        else:
            self.changes_by_others += 1
            staged, change = None, None
            deleted, versioned_value = value is None, value or b""
            if value is None and old is not None:
                versioned_value = self.values.codec.with_revision(old.value, old.revision, revision)
        if write is not None or deleted:
            self.values.unreadable.pop(key, None)
        created = pair.create_revision or (revision if old is None else old.created)
        record = None if deleted else Record(key, versioned_value, revision, created)
        if staged is None or change is None:
            staged = Staged(Change(revision, key, "MODIFIED", versioned_value, old), record, key[: resource_end(key)])
            change = staged.change
        change.revision, change.value, change.old = revision, versioned_value, old
        change.type = "DELETED" if deleted else "ADDED" if old is None else "MODIFIED"
        staged.record = record
        return staged

    def _advance(self, revision: int) -> None:
        """Everything up to that revision was reported."""
        self.is_reachable = True
        if revision > self.revision:
            self.revision = revision
            self._marks.add(self._env.monotonic(), revision)
            if self._awaited:
                self._notify_awaited()

    # The end

    async def close(self) -> None:
        """Commit the staged writes, end every watcher, and close the connection. Idempotent."""
        if self._closed:
            return
        if self._transaction_of:
            await self.flush()
        await super().close()
        await self._progress_requester.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.values.encryption is not None:
            await self.values.encryption.close()
        await self.client.close()
