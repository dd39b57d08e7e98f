"""Serves the resources of CustomResourceDefinitions, and sets the conditions of the definitions.

The resource table is updated with every commit. Conditions are written directly after a create or update, before its
response, so that the resource is served when the client receives the 201 (upstream takes some milliseconds, and clients
wait for the condition). When a definition is deleted, its objects are deleted first, with their finalizers and events;
the definition is removed after the last one.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pilothouse.api.wire import Request
from pilothouse.apiserver import errors
from pilothouse.apiserver.apiextensions.approval import CONDITION, approval_of
from pilothouse.apiserver.authentication.identity import MASTERS, Identity
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.conditions import set_condition
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints import create, delete, patch, update
from pilothouse.apiserver.objects import Object, decode, read_head, stage_deletion, stage_object
from pilothouse.apiserver.options import DeleteOptions
from pilothouse.apiserver.origins import own_writes
from pilothouse.apiserver.registry.apiextensions.customresourcedefinitions import FINALIZER
from pilothouse.apiserver.request_info import NO_QUERY, RequestInfo
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.results import ObjectResult, Result
from pilothouse.env import Log, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.go_text import quote
from pilothouse.storage import Change, Mismatch, Record, Staged
from pilothouse.storage.unreadable import is_readable

if TYPE_CHECKING:
    from pilothouse.apiserver.apiextensions.conversion import converter

with lazy_imports():
    from pilothouse.apiserver.apiextensions import serving
    from pilothouse.apiserver.apiextensions.conversion import factory
    from pilothouse.apiserver.registry.apiextensions.customresourcedefinitions import (
        validation as definition_validation,
    )


GROUP = "apiextensions.k8s.io"
RESOURCE = "customresourcedefinitions"
_PREFIX = f"{GROUP}/{RESOURCE}/"
_log = Log("apiextensions")
_RETRY_SECONDS = 10.0
"""Delay after a deletion that failed because of a conversion webhook."""
_SYSTEM = Identity("system:apiserver", (MASTERS,))
_REASONS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}


def _group_of(name: str) -> str:
    """The group of the definition of this name, ``<plural>.<group>``."""
    return name.partition(".")[2]


def _all_names(names: Object) -> set[str]:
    """All names of resource and kind."""
    single = {names[field] for field in ("plural", "singular", "kind", "listKind") if names.get(field)}
    return single.union(names.get("shortNames") or ())


def _set_or_remove(names: Object, field: str, value: object) -> None:
    if value:
        names[field] = value
    else:
        names.pop(field, None)


def _is_valid(definition: Object) -> bool:
    """Whether a definition has the fields that validation requires and this package relies on. Definitions that another
    program wrote to etcd were not validated here."""
    spec: Object = definition.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or ()
    return (
        all((spec.get("group"), spec.get("scope"), names.get("plural"), names.get("kind")))
        and definition["metadata"].get("name") == f"{names['plural']}.{spec['group']}"
        and all(version.get("name") for version in versions)
        and sum(bool(version.get("storage")) for version in versions) == 1
    )


class CustomResources:
    """The custom resources of one server."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._info = core.table.built_in(GROUP, RESOURCE)
        self._served: dict[str, tuple[str, int, Object, bool, bool]] = {}
        self._accepted_names: dict[str, Object] = {}
        """``status.acceptedNames`` of each definition."""
        self._conflicting: dict[str, set[str]] = {}
        """The names of definitions that are not accepted, or not yet."""
        self._terminating: dict[str, str] = {}
        """Storage prefix of a resource → its definition that is being deleted."""
        self._queue: dict[str, None] = {}
        self._notify: asyncio.Future[None] | None = None
        self._converter_factory: factory.ConverterFactory | None = None
        core.store.on_commit.append(self._on_commit)
        for record in core.store.list(_PREFIX).records:
            if is_readable(record.value):
                self._serve(decode(record.value))
        for verb in ("create", "update", "patch", "delete", "deletecollection"):
            core.verb_handlers[(GROUP, RESOURCE, "", verb)] = self._handle
        for verb in ("update", "patch"):
            # Conditions that a client changes are corrected.
            core.verb_handlers[(GROUP, RESOURCE, "status", verb)] = self._handle

    # Requests for definitions

    async def _handle(self, core: Core, call: Call) -> Result:
        """Call the generic handler, then sync the written definitions before the response."""
        handlers = {
            "create": create.create,
            "update": update.update,
            "patch": patch.patch,
            "delete": delete.delete,
            "deletecollection": delete.delete_collection,
        }
        result = await handlers[call.request_info.verb](core, call)
        if isinstance(result, ObjectResult):
            names = [read_head(result.value).metadata.name]
        else:
            names = list(self._terminating.values())
        for name in names:
            if self._needs_webhook(name):
                self._enqueue(name)
            else:
                await self.sync(name)
        return result

    # Commits

    def _on_commit(self, changes: list[Change]) -> None:
        for change in changes:
            if change.key.startswith(_PREFIX):
                if change.type == "DELETED":
                    self._remove(change.key.removeprefix(_PREFIX))
                elif is_readable(change.value):  # otherwise the previous version is still served
                    self._serve(decode(change.value))
            elif self._terminating and change.type == "DELETED":
                prefix = change.key[: change.key.index("/", change.key.index("/") + 1) + 1]
                if prefix in self._terminating:
                    self._enqueue(self._terminating[prefix])

    def _serve(self, definition: Object) -> None:
        if not _is_valid(definition):
            return
        meta, spec = definition["metadata"], definition["spec"]
        name = meta["name"]
        terminating = bool(meta.get("deletionTimestamp"))
        if terminating:
            self._terminating[f"{spec['group']}/{spec['names']['plural']}/"] = name
            self._enqueue(name)
        accepted = serving.is_crd_condition_true(definition, "NamesAccepted") or serving.is_crd_condition_true(
            definition, "Established"
        )
        accepted_names: Object = (definition.get("status") or {}).get("acceptedNames") or {}
        self._accepted_names[name] = accepted_names
        if serving.is_crd_condition_true(definition, "NamesAccepted"):
            self._conflicting.pop(name, None)
        else:
            self._conflicting[name] = _all_names(spec["names"])
        state = (meta["uid"], meta.get("generation") or 0, accepted_names, accepted, terminating)
        if self._served.get(name) != state:
            old_state = self._served.get(name)
            self._served[name] = state
            infos = serving.resource_infos(definition, self._converter(definition))
            old_infos = self._core.table.custom(name)
            self._core.table.set_custom(name, infos)
            self._forget(old_infos)
            served = [info.version for info in infos]
            # Upstream destroys the storage of a definition whose spec changed, which ends its watches.
            changed = old_state is not None and old_state[:3] != state[:3]
            self._end_watches([info for info in old_infos if changed or info.version not in served])

    @property
    def converter_factory(self) -> "factory.ConverterFactory":
        """Creates webhook converters. Created for the first definition with a conversion webhook."""
        if self._converter_factory is None:
            self._converter_factory = factory.ConverterFactory(self._core)
        return self._converter_factory

    def metrics(self) -> str:
        """The metrics of conversion webhooks, for ``/metrics``."""
        return "" if self._converter_factory is None else self._converter_factory.metrics.registry.exposition()

    def _converter(self, definition: Object) -> "converter.Converter | None":
        """The converter of a definition's objects; None with strategy ``None``, which only changes apiVersion."""
        if (definition["spec"].get("conversion") or {}).get("strategy") != "Webhook":
            return None
        return self.converter_factory.converter(definition)

    def _forget(self, infos: Iterable[ResourceInfo]) -> None:
        if self._converter_factory is not None:
            self._converter_factory.forget(infos)

    def _remove(self, name: str) -> None:
        self._terminating = {
            prefix: definition for prefix, definition in self._terminating.items() if definition != name
        }
        self._served.pop(name, None)
        self._conflicting.pop(name, None)
        self._enqueue_conflicting(name, freed=_all_names(self._accepted_names.pop(name, {})))
        removed_infos = self._core.table.custom(name)
        self._end_watches(list(removed_infos))
        self._core.table.set_custom(name, ())
        self._forget(removed_infos)

    def _end_watches(self, infos: list[ResourceInfo]) -> None:
        ended = {(info.group, info.version, info.resource) for info in infos}
        for watch, info in list(self._core.watches.items()):
            if (info.group, info.version, info.resource) in ended:
                watch.finish()

    # The controller

    def _enqueue(self, name: str) -> None:
        self._queue[name] = None
        if self._notify is not None and not self._notify.done():
            self._notify.set_result(None)

    async def run(self) -> None:
        """Sync definitions from the queue until cancelled."""
        for record in self._core.store.list(_PREFIX).records:
            self._queue[record.key[len(_PREFIX) :]] = None
        in_progress: dict[str, None] = {}

        async def sync_in_background(name: str) -> None:
            try:
                await self.sync(name)
            finally:
                del in_progress[name]

        async with TaskGroup("conversion webhooks of definitions") as group:
            while True:
                while self._queue:
                    name = next(iter(self._queue))
                    del self._queue[name]
                    if not self._needs_webhook(name):
                        await self.sync(name)
                        await asyncio.sleep(0)  # many may wait for one name
                    elif name not in in_progress:
                        in_progress[name] = None
                        group.start(sync_in_background(name), name=f"deletion of the objects of {name}")
                self._notify = asyncio.get_running_loop().create_future()
                await self._notify

    async def sync(self, name: str) -> None:
        """Update the conditions of one definition, or continue its deletion."""
        record = self._record(name)
        if record is None or not is_readable(record.value):
            return
        definition = decode(record.value)
        if not _is_valid(definition):
            _log.warning("A definition is not served: required fields are missing or invalid", name=name)
            return
        if definition["metadata"].get("deletionTimestamp"):
            await self._finalize(name, definition)
            return
        await self._sync_conditions(record, definition)

    def _record(self, name: str) -> Record | None:
        return self._core.store.staged(_PREFIX + name)

    async def _sync_conditions(self, record: Record, definition: Object) -> None:
        names = definition["spec"]["names"]
        status: Object = dict(definition.get("status") or {})
        now = self._core.time.now()
        if status.get("acceptedNames") != names:
            accepted, reason, message = self._check_names(definition)
            no_conflicts = not reason
            set_condition(
                status, now, "NamesAccepted", no_conflicts, reason or "NoConflicts", message or "no conflicts found"
            )
            if not no_conflicts and not serving.is_crd_condition_true(definition, "Established"):
                set_condition(status, now, "Established", False, "NotAccepted", "not all names are accepted")
            status["acceptedNames"] = accepted
        if serving.is_crd_condition_true({"status": status}, "NamesAccepted") and not serving.is_crd_condition_true(
            definition, "Established"
        ):
            detail = ("InitialNamesAccepted", "the initial names have been accepted")
            usable = not definition_validation.ca_bundle_errors(definition)
            if not usable:
                detail = ("InvalidCABundle", "The conversion webhook CABundle is invalid")
            set_condition(status, now, "Established", usable, *detail)
        approval = approval_of(definition)
        if approval is not None:
            set_condition(status, now, CONDITION, approval.is_true, approval.reason, approval.message)
        if status == definition.get("status"):
            return
        await self._write(record, {**definition, "status": status})
        # Not when a user has changed the status: then this definition takes its names back first (upstream
        # ``pkg/controller/status/naming_controller.go``, ``sync``).
        old_names = (definition.get("status") or {}).get("acceptedNames") or {}
        freed = _all_names(old_names) - _all_names(status.get("acceptedNames") or {})
        self._enqueue_conflicting(definition["metadata"]["name"], freed=freed)

    def _check_names(self, definition: Object) -> tuple[Object, str, str]:
        """The accepted names, and reason and message of the last conflict (``calculateNamesAndConditions``, upstream
        ``pkg/controller/status``)."""
        spec, own_name = definition["spec"], definition["metadata"]["name"]
        requested: Object = spec["names"]
        used_resources, used_kinds = self._used_names(spec["group"], own_name)
        accepted: Object = dict((definition.get("status") or {}).get("acceptedNames") or {"plural": "", "kind": ""})
        reason = message = ""
        for field, field_reason in _REASONS.items():
            names = requested.get(field)
            if names == accepted.get(field):
                continue
            used = used_kinds if field in ("kind", "listKind") else used_resources
            own = accepted.get(field) or () if field == "shortNames" else ()
            conflicts = [
                f"{quote(name)} is already in use"
                for name in ([names] if isinstance(names, str) else names or ())
                if name in used and name not in own
            ]
            if conflicts:
                reason, message = field_reason, conflicts[0] if len(conflicts) == 1 else f"[{', '.join(conflicts)}]"
            else:
                _set_or_remove(accepted, field, names)
        _set_or_remove(accepted, "categories", requested.get("categories"))
        return accepted, reason, message

    def _used_names(self, group: str, own_name: str) -> tuple[set[str], set[str]]:
        """The names of resources and of kinds that other definitions and built-in resources of a group have."""
        resources: set[str] = set()
        kinds: set[str] = set()
        for info in self._core.table:
            if info.group == group and info.custom is None:
                resources |= {info.resource, info.singular, *info.short_names}
                kinds |= {info.kind, info.list_kind}
        for name, names in self._accepted_names.items():
            if name != own_name and _group_of(name) == group:
                resources |= {names.get("plural") or "", names.get("singular") or "", *(names.get("shortNames") or ())}
                kinds |= {names.get("kind") or "", names.get("listKind") or ""}
        return resources, kinds

    def _enqueue_conflicting(self, changed: str, *, freed: set[str]) -> None:
        """Enqueue the definitions of the group that want one of the names which a definition no longer has. Upstream
        requeues all of the group after each of its writes, with the same result."""
        for name in sorted(self._conflicting) if freed else ():
            if _group_of(name) == _group_of(changed) and not freed.isdisjoint(self._conflicting[name]):
                self._enqueue(name)

    async def _finalize(self, name: str, definition: Object) -> None:
        """Delete the remaining objects of a definition, then remove its finalizer (upstream
        ``pkg/controller/finalizer``)."""
        if FINALIZER not in (definition["metadata"].get("finalizers") or ()):
            return
        spec = definition["spec"]
        prefix = f"{spec['group']}/{spec['names']['plural']}/"
        infos = self._core.table.custom(name)
        failure = await self._delete_instances(infos[0].custom.strategy.storage, prefix) if infos else ""
        remaining = bool(self._core.store.count(prefix)) and bool(infos)
        current_record = self._record(name)
        if current_record is None or read_head(current_record.value).metadata.uid != definition["metadata"]["uid"]:
            return  # deleted in the meantime, and perhaps created again
        definition = decode(current_record.value)
        status: Object = dict(definition.get("status") or {})
        now = self._core.time.now()
        if remaining and failure:
            detail = ("InstanceDeletionFailed", f"could not list instances: {failure}")
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._enqueue, name)
        elif remaining:
            detail = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
        elif infos:
            detail = ("InstanceDeletionCompleted", "removed all instances")
        else:
            detail = ("NeverEstablished", "resource was never established")
        set_condition(status, now, "Terminating", remaining, *detail)
        definition["status"] = status
        meta = definition["metadata"]
        if not remaining:
            meta["finalizers"] = [finalizer for finalizer in meta.get("finalizers") or () if finalizer != FINALIZER]
            if not meta["finalizers"]:
                await self._commit(current_record, lambda: stage_deletion(self._core.store, current_record))
                return
        if definition != decode(current_record.value):
            await self._write(current_record, definition)

    async def _delete_instances(self, storage: ResourceInfo, prefix: str) -> str:
        """Delete the objects of a definition, in the storage version; returns the error, or "".

        Only objects that are stored in another version have to be converted.
        """
        records = self._core.store.list(prefix).records
        try:
            await self._core.list_from_storage(storage, [record.value for record in records])
            for record in records:
                await self._delete_instance(storage, record)
        except errors.StatusError as error:
            return error.message
        return ""

    def _needs_webhook(self, name: str) -> bool:
        """Whether a webhook has to convert objects of a terminating definition before they can be deleted."""
        infos = self._core.table.custom(name)
        if not infos or name not in self._terminating.values():
            return False
        storage = infos[0].custom.strategy.storage
        if storage.custom.converter is None:
            return False
        records = self._core.store.list(storage.prefix).records
        return any(self._core.needs_webhook(storage, record.value) for record in records)

    async def _delete_instance(self, info: ResourceInfo, record: Record) -> None:
        head = read_head(record.value).metadata
        request_info = RequestInfo("", NO_QUERY, "delete", True, info=info)
        strategy = self._core.strategy(info)
        # Upstream deletes in the storage, below admission (apiextensions-apiserver
        # ``pkg/controller/finalizer/crd_finalizer.go``, v0.36): the program behind a webhook is often gone.
        call = Call(
            Request("DELETE", ""),
            request_info,
            info,
            strategy,
            _SYSTEM,
            head.namespace,
            head.name,
            [],
            skip_admission=True,
        )
        reason = f"CustomResourceDefinition {info.resource}.{info.group} is being deleted: its objects go first"
        try:
            with own_writes(self._core.env, f"{info.resource}.{info.group}", reason):
                await delete.delete_one(self._core, call, DeleteOptions())
        except errors.StatusError as error:
            if error.code not in (404, 409):
                raise

    async def _write(self, record: Record, definition: Object) -> None:
        definition["metadata"] = dict(definition["metadata"])
        self._core.managed_fields.update_on_server_update(self._info, record.value, definition, "status")
        await self._commit(
            record, lambda: stage_object(self._core.store, self._info, record.key, definition, expected=record.revision)
        )

    async def _commit(self, record: Record, stage: Callable[[], Staged]) -> None:
        name = record.key[len(_PREFIX) :]
        try:
            with own_writes(self._core.env, name, f"names, schema and stored versions of {name} were checked"):
                staged = stage()
            await self._core.commit(staged)
        except Mismatch:
            # A concurrent write; its commit triggers the next sync.
            self._enqueue(record.key[len(_PREFIX) :])
