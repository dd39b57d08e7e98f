"""The renewal of a Lease: a PUT of what is stored, with another ``spec.renewTime``, by the manager that owns all of it.

Every node sends one each ten seconds, and does nothing else while it rests, so it has a path of its own: nothing is
decoded but what decides whether the request is one, and the times are put into the stored bytes. A request that
changes anything else, or that could be rejected, is handled by ``update`` as all others are, which stores the same
bytes.
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
from pilothouse.apiserver.registry.generic.managed_fields import manager_of
from pilothouse.apiserver.serializers.results import ObjectResult
from pilothouse.storage import Mismatch, Record

_SPEC = b',"spec":{'
_RENEWED = b'"renewTime":"'
_ENTRIES = b',"managedFields":['
_instant = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z").fullmatch
_MOST_KNOWN = 16_384
_LENGTH = len("2026-01-01T00:00:00.000000Z")


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
    """The answer, or None for a request that is not a plain renewal. Raises ``StatusError`` where admission does."""
    if options.dry_run or not _is_ours(core, call, record) or not _is_renewal(call.request.body, record.value):
        return None
    known = core.renewed.get(record.key)
    owner = known[1] if known is not None and known[0] == record.revision else _only_owner(record.value)
    if owner is None or owner.manager != manager_of(call, options) or owner.api_version != call.info.api_version:
        return None
    admission = core.admission_of(call)
    write = AdmissionAttributes("UPDATE", call.info, call.namespace, call.name, call.identity, warnings=call.warnings)
    if admission.reads_updates(write):
        return None
    await admission.admit(write)
    admission.allocate(write)
    await admission.validate(write)
    body, now = call.request.body, core.time.now()

    def make(revision: int) -> bytes:
        head, mark, rest = with_revision(body, record.revision, revision).partition(_ENTRIES)
        return head + mark + rest.replace(b'"time":"%s"' % owner.time.encode(), b'"time":"%s"' % now.encode(), 1)

    try:
        staged = core.store.stage(record.key, make, expected=record.revision)
    except Mismatch:
        return None
    value = await core.commit(staged)
    if known is None and len(core.renewed) >= _MOST_KNOWN:
        core.renewed.clear()
    core.renewed[record.key] = (staged.revision, Owner(owner.manager, owner.api_version, now))
    return ObjectResult(200, call.info, value, tuple(call.warnings))


def _is_ours(core: Core, call: Call, record: Record) -> bool:
    """Whether this server has written what is stored, as it would show it: an object of another process may not be
    what the rules of today make of it, and is written anew as a whole."""
    info = call.info
    return (
        record.revision > core.begun_at and record.value.startswith(info.head) and call.strategy.stored_as(info) is info
    )


def _is_renewal(body: bytes, value: bytes) -> bool:
    """Whether they are the same but for spec.renewTime, and that is an instant as it is stored."""
    # No text in an object has these quotes, and nothing but the spec comes after the spec.
    start = value.find(_RENEWED, value.rfind(_SPEC)) + len(_RENEWED)
    end = start + _LENGTH
    if len(body) != len(value) or start <= len(_RENEWED) or value[end : end + 1] != b'"':
        return False
    renewed = body[start:end]
    if renewed == value[start:end] or not body.startswith(value[:start]) or not body.endswith(value[end:]):
        return False
    return _is_instant(renewed)


@lru_cache(maxsize=64)
def _is_instant(text: bytes) -> bool:
    """Of many nodes that renew at the same time, the first asks."""
    if _instant(text) is None:
        return False
    try:
        datetime.datetime.fromisoformat(text.decode())
    except ValueError:
        return False
    return True


def _only_owner(value: bytes) -> Owner | None:
    """Who has made the one entry of managedFields with an update of spec.renewTime; None where there are several
    entries or none, and where the object is being deleted."""
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
