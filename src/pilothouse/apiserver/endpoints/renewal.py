"""Fast path for the renewal of a Lease: a PUT of the stored Lease with another ``spec.renewTime``, by the manager that
owns all fields.

Every node sends one each ten seconds. Only what identifies such a request is decoded, and the times are replaced in the
stored bytes. A request that changes anything else, or might be rejected, is handled by ``update``, which would store
the same bytes.
"""

import datetime
import re
from functools import lru_cache

import msgspec

from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core, Owner
from pilothouse.apiserver.objects import with_revision
from pilothouse.apiserver.options import WriteOptions
from pilothouse.apiserver.origins import begin_writes, current_origin, end_writes, repeat_writes
from pilothouse.apiserver.registry.generic.managed_fields import manager_or_user_agent
from pilothouse.apiserver.serializers.results import ObjectResult
from pilothouse.machinery.causes import HEADER, Origin
from pilothouse.storage import Mismatch, Record, Staged

_SPEC = b',"spec":{'
_RENEW_TIME = b'"renewTime":"'
_ENTRIES = b',"managedFields":['
_MICRO_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z").fullmatch
_MAX_CACHED = 16_384
_TIME_LENGTH = len("2026-01-01T00:00:00.000000Z")


class _OwnedSpec(msgspec.Struct, gc=False):
    renewed: msgspec.Raw = msgspec.field(name="f:renewTime", default=msgspec.Raw(b""))


class _Owned(msgspec.Struct, gc=False):
    spec: _OwnedSpec = msgspec.field(name="f:spec", default_factory=_OwnedSpec)


class _Entry(msgspec.Struct, gc=False, rename="camel"):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str = ""
    fields: _Owned = msgspec.field(name="fieldsV1", default_factory=_Owned)
    subresource: str = ""


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    managed_fields: tuple[_Entry, ...] = ()
    deletion_timestamp: str = ""


class _Stored(msgspec.Struct, gc=False):
    metadata: _Meta


_read = msgspec.json.Decoder(_Stored).decode


async def renew(core: Core, call: Call, record: Record, options: WriteOptions) -> ObjectResult | None:
    """The response, or None if the request is no plain renewal. Raises ``StatusError`` from admission."""
    owner = _owner_of_renewal(core, call, record, options)
    if owner is None:
        return None
    admission = core.admission_of(call)
    write = _write_of(call)
    if admission.reads_updates(write):
        return None
    await admission.admit(write)
    admission.allocate(write)
    await admission.validate(write)
    now = core.time.now()
    staged = _stage(core, call, record, owner, now)
    if staged is None:
        return None
    try:
        value = await core.commit(staged)
    except Mismatch:  # a conflict with another server
        return None
    _cache_owner(core, staged, Owner(owner.manager, owner.api_version, now))
    return ObjectResult(200, call.info, value, tuple(call.warnings))


class DirectRenewal:
    """Renews one Lease for its owner, a program in this process, without a request: the stored object, watch events and
    metrics are the same as for a PUT of the last written Lease with another time.

    ``renew`` returns the Lease, or None, without any effect, if somebody else has written it or the request would not
    be a plain renewal: the program then has to send the request.
    """

    def __init__(self, core: Core, call: Call, record: Record, owner: Owner) -> None:
        self._core = core
        self._call = call
        self._key = record.key
        self._owner = owner
        self._revision = record.revision
        self._write = _write_of(call)
        self._origin: Origin | None = None
        self._segments: tuple[bytes, bytes, bytes, bytes] | None = _split_at_changes(record, owner)

    def renew(self, renew_time: str) -> bytes | None:
        """Renew with this ``renewTime``. Raises ``StatusError`` from admission."""
        core, call, segments = self._core, self._call, self._segments
        record = core.store.staged(self._key)
        if segments is None or record is None or record.revision != self._revision:
            return None
        admission = core.admission_of(call)
        if admission.reads_updates(self._write) or not admission.admit_without_waiting(self._write) or call.warnings:
            return None
        now = core.time.now()
        head, before_time, before_renew_time, tail = segments

        def make(revision: int) -> bytes:
            return b"%b%d%b%b%b%b%b" % (
                head,
                revision,
                before_time,
                now.encode(),
                before_renew_time,
                renew_time.encode(),
                tail,
            )

        last_origin = self._origin
        origin = begin_writes(call, core.env) if last_origin is None else repeat_writes(last_origin, core.env)
        if last_origin is None and HEADER not in call.request.headers:
            self._origin = current_origin()
        try:
            staged = core.store.stage(record.key, make, expected=record.revision)
            value = core.commit_nowait(staged)
        finally:
            end_writes(origin)
        self._revision = staged.revision
        if self._owner.time != now:
            self._owner = Owner(self._owner.manager, self._owner.api_version, now)
        _cache_owner(core, staged, self._owner)
        return value


def direct_renewal(core: Core, call: Call, options: WriteOptions) -> DirectRenewal | None:
    """The ``DirectRenewal`` of a Lease, if it is stored as its owner has last renewed it, and the store commits without
    waiting."""
    record = core.store.staged(call.key)
    if (
        record is None
        or options.dry_run
        or not core.store.supports_commit_nowait
        or not _is_written_here(core, call, record)
    ):
        return None
    cached = core.renewed.get(record.key)
    if cached is None or cached[0] != record.revision:
        return None
    owner = cached[1]
    if owner.manager != manager_or_user_agent(call, options) or owner.api_version != call.info.api_version:
        return None
    return DirectRenewal(core, call, record, owner)


def _split_at_changes(record: Record, owner: Owner) -> tuple[bytes, bytes, bytes, bytes] | None:
    """The bytes around resource version, time of the managedFields entry and renewTime."""
    head, version, remaining = record.value.partition(b'"resourceVersion":"%d"' % record.revision)
    before_entries, entries, remaining = remaining.partition(_ENTRIES)
    before_time, time, remaining = remaining.partition(b'"time":"%s"' % owner.time.encode())
    renew_time_start = remaining.find(_RENEW_TIME, remaining.rfind(_SPEC)) + len(_RENEW_TIME)
    if not version or not entries or not time or renew_time_start < len(_RENEW_TIME):
        return None
    return (
        head + b'"resourceVersion":"',
        b'"' + before_entries + entries + before_time + b'"time":"',
        b'"' + remaining[:renew_time_start],
        remaining[renew_time_start + _TIME_LENGTH :],
    )


def _owner_of_renewal(core: Core, call: Call, record: Record, options: WriteOptions) -> Owner | None:
    """The manager of the Lease, if the request only renews it, and comes from that manager."""
    if options.dry_run or not _is_written_here(core, call, record) or not _is_renewal(call.request.body, record.value):
        return None
    cached = core.renewed.get(record.key)
    owner = cached[1] if cached is not None and cached[0] == record.revision else _sole_owner(record.value)
    if (
        owner is None
        or owner.manager != manager_or_user_agent(call, options)
        or owner.api_version != call.info.api_version
    ):
        return None
    return owner


def _write_of(call: Call) -> AdmissionAttributes:
    return AdmissionAttributes("UPDATE", call.info, call.namespace, call.name, call.identity, warnings=call.warnings)


def _stage(core: Core, call: Call, record: Record, owner: Owner, now: str) -> Staged | None:
    """Stage the Lease with its new version, written ``now`` by its manager."""
    body = call.request.body

    def make(revision: int) -> bytes:
        head, separator, entries = with_revision(body, record.revision, revision).partition(_ENTRIES)
        return (
            head + separator + entries.replace(b'"time":"%s"' % owner.time.encode(), b'"time":"%s"' % now.encode(), 1)
        )

    try:
        return core.store.stage(record.key, make, expected=record.revision)
    except Mismatch:
        return None


def _cache_owner(core: Core, staged: Staged, owner: Owner) -> None:
    if len(core.renewed) >= _MAX_CACHED and staged.change.key not in core.renewed:
        core.renewed.clear()
    core.renewed[staged.change.key] = (staged.revision, owner)


def _is_written_here(core: Core, call: Call, record: Record) -> bool:
    """Whether this server has written the stored bytes: an object written by another process may not be normalized as
    here, and is then updated as a whole."""
    info = call.info
    return (
        not core.is_from_before_start(record)
        and record.value.startswith(info.head)
        and call.strategy.stored_as(info) is info
    )


def _is_renewal(body: bytes, value: bytes) -> bool:
    """Whether both are equal but for spec.renewTime, and that is in the stored format."""
    # Strings cannot contain unescaped quotes, and the spec is the last member.
    start = value.find(_RENEW_TIME, value.rfind(_SPEC)) + len(_RENEW_TIME)
    end = start + _TIME_LENGTH
    if len(body) != len(value) or start <= len(_RENEW_TIME) or value[end : end + 1] != b'"':
        return False
    renew_time = body[start:end]
    if renew_time == value[start:end] or not body.startswith(value[:start]) or not body.endswith(value[end:]):
        return False
    return _is_micro_time(renew_time)


@lru_cache(maxsize=64)
def _is_micro_time(text: bytes) -> bool:
    """One decision for many nodes that renew at the same time."""
    if _MICRO_TIME(text) is None:
        return False
    try:
        datetime.datetime.fromisoformat(text.decode())
    except ValueError:
        return False
    return True


def _sole_owner(value: bytes) -> Owner | None:
    """The manager of the only managedFields entry, an update of spec.renewTime; None if there are other entries, and if
    the object is being deleted."""
    try:
        meta = _read(value).metadata
    except msgspec.DecodeError:
        return None  # the decoder of the object reports the error
    if len(meta.managed_fields) != 1 or meta.deletion_timestamp:
        return None
    entry = meta.managed_fields[0]
    if entry.operation != "Update" or entry.subresource or not entry.fields.spec.renewed:
        return None
    return Owner(entry.manager, entry.api_version, entry.time)
