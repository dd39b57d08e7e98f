"""ResourceQuota: rejects writes that would exceed a quota, and updates ``status.used``.

After apiserver's ``pkg/admission/plugin/resourcequota`` (v0.36). It is the last plugin, so that a write that another
plugin rejects is not charged. Upstream first updates ``status.used`` of each quota separately, with up to three retries
on conflicts. Here quotas and object are staged together and committed in one transaction.

``status.hard`` is written by the quota controller: until then a quota has no effect, as upstream.
"""

from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import decode, stage_object
from pilothouse.apiserver.origins import reason
from pilothouse.machinery.quantities import Quantity
from pilothouse.semantics.pod_amounts import Amounts, add, amounts
from pilothouse.semantics.quota import Evaluator, ScopeRequirement, evaluator_for
from pilothouse.storage import Record

PREFIX = "/resourcequotas/"
_ZERO = Quantity(0)
_UPDATES = frozenset({"pods", "services", "persistentvolumeclaims"})


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[ScopeRequirement, ...] | None = ()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scopes: tuple[str, ...] | None = ()
    scope_selector: _Selector | None = None


class _Status(msgspec.Struct, frozen=True):
    hard: dict[str, str] | None = None
    used: dict[str, str] | None = None


class _Stored(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_read = msgspec.json.Decoder(_Stored).decode


class Quota:
    """A stored ResourceQuota, parsed."""

    def __init__(self, record: Record) -> None:
        stored = _read(record.value)
        self.record = record
        self.name = stored.metadata.name
        self.hard = amounts(stored.status.hard)
        self.used = amounts(stored.status.used)
        selector = stored.spec.scope_selector
        self.scopes = (
            *(ScopeRequirement(scope_name=scope, operator="Exists") for scope in stored.spec.scopes or ()),
            *((selector.match_expressions or ()) if selector is not None else ()),
        )


class ResourceQuota(Plugin):
    """Charges creations and updates that increase the usage. The quota controller decreases it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._store = core.store
        self._info = core.table.built_in("", "resourcequotas")
        self._cache: dict[str, Quota] = {}

    def reads_updates(self, resource: str) -> bool:
        return resource in _UPDATES

    def validate(self, write: AdmissionAttributes) -> None:
        if not self._store.has_any(PREFIX):
            return
        if not write.namespace or write.obj is None or write.operation not in ("CREATE", "UPDATE"):
            return
        info = write.info
        if write.operation == "UPDATE" and (info.group or info.resource not in _UPDATES):
            return
        records = self._store.list(f"{PREFIX}{write.namespace}/").records
        if not records:
            return
        evaluator = evaluator_for(info.group, info.resource)
        if evaluator is None or not evaluator.handles(write.operation, write.subresource, write.obj, write.old):
            return
        charged = self._check(write, evaluator, self._quotas(records))
        if write.dry_run or self._already_exists(write):
            return
        for quota, used in charged:
            self._charge(write, quota, used)

    def _quotas(self, records: Iterable[Record]) -> list[Quota]:
        """The quotas, staged writes included."""
        quotas = []
        for committed in records:
            record = self._store.staged(committed.key)
            if record is None:
                self._cache.pop(committed.key, None)
                continue
            quota = self._cache.get(record.key)
            if quota is None or quota.record is not record:
                quota = self._cache[record.key] = Quota(record)
            quotas.append(quota)
        return quotas

    def _check(
        self, write: AdmissionAttributes, evaluator: Evaluator, quotas: list[Quota]
    ) -> list[tuple[Quota, Amounts]]:
        """The quotas that the write is charged to, with their new usage (``CheckRequest``). Raises the error for an
        exceeded quota."""
        obj, old = write.obj, write.old
        assert obj is not None, "only writes with an object are checked"
        interesting_quotas = []
        for quota in quotas:
            names = evaluator.matching(quota.hard)
            if not names or not all(evaluator.in_scope(scope, obj) for scope in quota.scopes):
                continue
            missing = evaluator.lacking(names, obj)
            if missing:
                raise new_forbidden(write, f"failed quota: {quota.name}: {missing}")
            if any(name not in quota.used for name in names):
                raise new_forbidden(write, f"status unknown for quota: {quota.name}, resources: {','.join(names)}")
            interesting_quotas.append(quota)
        if not interesting_quotas:
            return []
        now = self._core.env.now()
        usage = evaluator.usage(obj, now)
        negative = sorted(name for name, amount in usage.items() if amount < _ZERO)
        if negative:
            raise new_forbidden(write, f"quota usage is negative for resource(s): {','.join(negative)}")
        delta_usage = usage if old is None else _subtract_to_non_negative(usage, evaluator.usage(old, now))
        charged = []
        for quota in interesting_quotas:
            was_in_scope = old is not None and all(evaluator.in_scope(scope, old) for scope in quota.scopes)
            delta = {
                name: amount
                for name, amount in (delta_usage if was_in_scope else usage).items()
                if amount and name in quota.hard
            }
            if delta:
                charged.append((quota, _new_usage(write, quota, delta)))
        return charged

    def _already_exists(self, write: AdmissionAttributes) -> bool:
        """Whether the creation will fail with AlreadyExists. Upstream charges it all the same, until the quota
        controller recalculates the usage."""
        return write.operation == "CREATE" and (
            self._store.staged(write.info.key(write.namespace, write.name)) is not None
        )

    def _charge(self, write: AdmissionAttributes, quota: Quota, used: Mapping[str, Quantity]) -> None:
        record = quota.record
        obj = decode(record.value)
        obj.setdefault("status", {})["used"] = {name: str(used[name]) for name in sorted(used)}
        charged = ", ".join(
            f"{name} {quota.used[name]} -> {amount} of {quota.hard[name]}"
            for name, amount in used.items()
            if name in quota.hard and name in quota.used and quota.used[name] != amount
        )
        self._core.managed_fields.update_on_server_update(self._info, record.value, obj, "status")
        # Committed in the same transaction as the object.
        with reason(f"ResourceQuota {quota.name} is charged for {write.info.resource} {write.name}: {charged}"):
            stage_object(self._store, self._info, record.key, obj, expected=record.revision)


def _subtract_to_non_negative(usage: Amounts, old_usage: Amounts) -> Amounts:
    """``quota.SubtractWithNonNegativeResult``."""
    return {name: max(amount - old_usage.get(name, _ZERO), _ZERO) for name, amount in usage.items()}


def _new_usage(write: AdmissionAttributes, quota: Quota, delta: Amounts) -> Amounts:
    """The usage of the quota plus ``delta``. Rejects the write if that exceeds the quota."""
    used = dict(quota.used)
    add(used, delta)
    exceeded = sorted(name for name in delta if used[name] > quota.hard[name])
    if exceeded and write.subresource != "status":
        requested, old_used, hard = (
            ",".join(f"{name}={amounts[name]}" for name in exceeded if name in amounts)
            for amounts in (delta, quota.used, quota.hard)
        )
        raise new_forbidden(
            write, f"exceeded quota: {quota.name}, requested: {requested}, used: {old_used}, limited: {hard}"
        )
    return used
