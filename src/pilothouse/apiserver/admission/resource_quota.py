"""ResourceQuota: what a namespace may use at most, charged before anything is stored.

After apiserver's ``pkg/admission/plugin/resourcequota`` (v0.36). The last of all plugins: nothing may be charged for a
write that another plugin rejects. Upstream writes the new ``status.used`` first, each quota by itself, and starts over
up to three times when another write was quicker. Here quotas are read and staged in one step, together with the object,
so no write comes in between, and both are stored or neither is.

``status.hard`` is written by the quota controller: until then a quota limits nothing, as upstream.
"""

from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.objects import decode, stage_object
from pilothouse.apiserver.origins import reason
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.env import Env
from pilothouse.machinery.quantities import Quantity
from pilothouse.semantics.pod_amounts import Amounts, add, amounts
from pilothouse.semantics.quota import Evaluator, ScopeRequirement, evaluator_for
from pilothouse.storage import Record, Store

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
    """A stored quota, parsed."""

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
    """Charges creations, and updates that change what is used; nothing is given back here, that is the quota
    controller's."""

    def __init__(self, env: Env, store: Store, table: ResourceTable) -> None:
        self._env = env
        self._store = store
        self._info = table.built_in("", "resourcequotas")
        self._known: dict[str, Quota] = {}

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
        if write.dry_run or self._is_taken(write):
            return
        for quota, used in charged:
            self._charge(write, quota, used)

    def _quotas(self, records: Iterable[Record]) -> list[Quota]:
        """The quotas as the next write will find them."""
        found = []
        for committed in records:
            record = self._store.staged(committed.key)
            if record is None:
                self._known.pop(committed.key, None)
                continue
            quota = self._known.get(record.key)
            if quota is None or quota.record is not record:
                quota = self._known[record.key] = Quota(record)
            found.append(quota)
        return found

    def _check(
        self, write: AdmissionAttributes, evaluator: Evaluator, quotas: list[Quota]
    ) -> list[tuple[Quota, Amounts]]:
        """Each quota that the write uses, with what will then be used of it. Raises the error of an exceeded one."""
        obj, old = write.obj, write.old
        assert obj is not None, "only what has an object is checked"
        concerned = []
        for quota in quotas:
            names = evaluator.matching(quota.hard)
            if not names or not all(evaluator.in_scope(scope, obj) for scope in quota.scopes):
                continue
            lacking = evaluator.lacking(names, obj)
            if lacking:
                raise new_forbidden(write, f"failed quota: {quota.name}: {lacking}")
            if any(name not in quota.used for name in names):
                raise new_forbidden(write, f"status unknown for quota: {quota.name}, resources: {','.join(names)}")
            concerned.append(quota)
        if not concerned:
            return []
        now = self._env.now()
        usage = evaluator.usage(obj, now)
        negative = sorted(name for name, amount in usage.items() if amount < _ZERO)
        if negative:
            raise new_forbidden(write, f"quota usage is negative for resource(s): {','.join(negative)}")
        more = usage if old is None else _growth(usage, evaluator.usage(old, now))
        charged = []
        for quota in concerned:
            was_in = old is not None and all(evaluator.in_scope(scope, old) for scope in quota.scopes)
            delta = {
                name: amount for name, amount in (more if was_in else usage).items() if amount and name in quota.hard
            }
            if delta:
                charged.append((quota, _within(write, quota, delta)))
        return charged

    def _is_taken(self, write: AdmissionAttributes) -> bool:
        """Whether the creation will fail, because of an object of that name. Upstream charges, and the quota controller
        has to find out."""
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
        # Committed with the object, which is staged in the same step.
        with reason(f"ResourceQuota {quota.name} is charged for {write.info.resource} {write.name}: {charged}"):
            stage_object(self._store, self._info, record.key, obj, expected=record.revision)


def _growth(usage: Amounts, before: Amounts) -> Amounts:
    """What is used more than before. Less is not given back here."""
    return {name: max(amount - before.get(name, _ZERO), _ZERO) for name, amount in usage.items()}


def _within(write: AdmissionAttributes, quota: Quota, delta: Amounts) -> Amounts:
    """What is used then; rejects what is too much."""
    used = dict(quota.used)
    add(used, delta)
    exceeded = sorted(name for name in delta if used[name] > quota.hard[name])
    if exceeded and write.subresource != "status":
        asked, so_far, most = (
            ",".join(f"{name}={listed[name]}" for name in exceeded if name in listed)
            for listed in (delta, quota.used, quota.hard)
        )
        raise new_forbidden(write, f"exceeded quota: {quota.name}, requested: {asked}, used: {so_far}, limited: {most}")
    return used
