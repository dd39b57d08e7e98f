"""A small controller for a custom resource, on the machinery that pilothouse's own controllers run on.

A ``Backup`` names a ConfigMap. The controller copies it whenever it changes, keeps the newest copies, and takes them
away when the Backup is deleted::

    apiVersion: backup.example.com/v1
    kind: Backup
    metadata: {name: settings}
    spec: {configMap: settings, keep: 2}

It shows an informer and a lister for a kind of one's own, an index, a work queue, a finalizer, the status subresource,
events, and leader election. docs/runtime.md goes through it. Run it against any API server:

    kubectl apply -f examples/backup_crd.yaml
    python examples/backup_controller.py [--kubeconfig FILE] [--leader-elect]
"""

import argparse
import asyncio
import datetime
import os
import signal
import socket

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client import Client, merge_patch
from pilothouse.client.connect import connect
from pilothouse.client.errors import AlreadyExists, ConfigError, NotFound
from pilothouse.env import Env, TaskGroup, loops
from pilothouse.env.logging import configure
from pilothouse.machinery.splice import take_field
from pilothouse.machinery.times import format_time
from pilothouse.runtime import (
    Controller,
    EventRecorder,
    Fence,
    InformerFactory,
    LeaderElector,
    Registry,
    Requeue,
    TerminalError,
    object_key,
    object_reference,
)

NAME = "backup-controller"
FINALIZER = "backup.example.com/copies"
OWNER_LABEL = "backup.example.com/backup"
SOURCE_VERSION = "backup.example.com/source-version"


# What is read of the objects: nothing else is decoded, and nothing else is kept in memory.


class BackupSpec(View, frozen=True):
    """What is to be copied, and how many copies are kept."""

    config_map: str = ""
    keep: int = 1


class BackupStatus(View, frozen=True):
    """The newest copy, and the version of the ConfigMap that it shows."""

    observed_generation: int = 0
    phase: str = ""
    copy: str = ""
    source_version: str = ""
    copied_at: datetime.datetime | None = None


class Backup(View, frozen=True):
    """A standing order to copy a ConfigMap."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BackupSpec = BackupSpec()
    status: BackupStatus = BackupStatus()


class ConfigMap(View, frozen=True):
    """Of a ConfigMap only the metadata matters here; its data is copied as it came, unread."""

    metadata: ObjectMeta = ObjectMeta()


BACKUPS = Kind("backup.example.com", "v1", "backups", "Backup", True, Backup)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, ConfigMap)


def by_source(backup: Backup) -> tuple[str, ...]:
    """Index of Backups by the ConfigMap they copy."""
    return (f"{backup.metadata.namespace}/{backup.spec.config_map}",)


def by_backup(config_map: ConfigMap) -> tuple[str, ...]:
    """Index of copies by the Backup they were made for."""
    name = config_map.metadata.labels.get(OWNER_LABEL, "")
    return (f"{config_map.metadata.namespace}/{name}",) if name else ()


class BackupController(Controller):
    """Keys are ``namespace/name`` of Backups.

    Promises: for every version of the ConfigMap that is seen there is one copy, however often the controller is
    restarted (the copy's name says which version it shows); the newest ``keep`` copies are kept; nothing of a Backup
    that was deleted stays. Not promised: that a version that was replaced at once is copied.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        informers: InformerFactory,
        recorder: EventRecorder,
        metrics: Registry | None = None,
    ) -> None:
        backups = informers.informer(BACKUPS)
        # keep_raw: the data of a ConfigMap is copied as it came, fields that nobody here knows included.
        config_maps = informers.informer(CONFIG_MAPS, keep_raw=True)
        super().__init__(NAME, env, workers=2, waits_for=(backups, config_maps), metrics=metrics)
        self._client = client
        self._recorder = recorder
        self._backups = backups.cache
        self._config_maps = config_maps.cache
        self._backups.add_index("source", by_source)
        self._config_maps.add_index("backup", by_backup)
        backups.add_handler(
            on_add=lambda backup, _initial: self.queue.add(object_key(backup.metadata)),
            on_update=lambda _old, backup: self.queue.add(object_key(backup.metadata)),
            on_delete=lambda backup, _unknown: self.queue.add(object_key(backup.metadata)),
        )
        config_maps.add_handler(
            on_add=lambda found, _initial: self._enqueue_backups_of(found),
            on_update=lambda _old, found: self._enqueue_backups_of(found),
            on_delete=lambda found, _unknown: self._enqueue_backups_of(found),
        )

    def _enqueue_backups_of(self, config_map: ConfigMap) -> None:
        for backup in self._backups.by_index("source", object_key(config_map.metadata)):
            self.queue.add(object_key(backup.metadata))
        for key in by_backup(config_map):  # a copy: somebody may have deleted it
            self.queue.add(key)

    async def reconcile(self, key: str) -> Requeue | None:
        """Look at everything there is for one Backup and do what is missing."""
        backup = self._backups.get(key)
        if backup is None:
            return None
        if backup.metadata.deletion_timestamp is not None:
            await self._clean_up(backup)
            return None
        if FINALIZER not in backup.metadata.finalizers:
            # The finalizer must be there before the first copy, or a deletion in between would leave it behind. The
            # update that this causes brings the key back.
            await self._set_finalizers(backup, (*backup.metadata.finalizers, FINALIZER))
            return None
        if not backup.spec.config_map:
            raise TerminalError("spec.configMap is empty; nothing can be done until that is changed")
        source_key = f"{backup.metadata.namespace}/{backup.spec.config_map}"
        source, raw = self._config_maps.get(source_key), self._config_maps.raw(source_key)
        if source is None or raw is None:
            await self._report(backup, BackupStatus(phase="Waiting"))
            return None
        version = source.metadata.resource_version
        copy = f"{backup.metadata.name}-{version}"
        if self._config_maps.get(f"{backup.metadata.namespace}/{copy}") is None:
            await self._copy(backup, copy, version, raw)
        await self._prune(backup, copy)
        reported = (backup.status.source_version, backup.status.copy, backup.status.observed_generation)
        if reported != (version, copy, backup.metadata.generation):
            await self._report(
                backup, BackupStatus(phase="Copied", copy=copy, source_version=version, copied_at=self.env.now())
            )
        return None

    async def _copy(self, backup: Backup, name: str, version: str, raw: bytes) -> None:
        meta = backup.metadata
        body: dict[str, object] = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {
                "name": name,
                "labels": {OWNER_LABEL: meta.name},
                "annotations": {SOURCE_VERSION: version},
            },
        }
        for field in ("data", "binaryData"):
            value = take_field(raw, field)
            if value is not None:
                body[field] = value
        try:
            await self._client.create(CONFIG_MAPS, body, meta.namespace)
        except AlreadyExists:
            return  # made by an earlier run that the cache does not show yet
        self._recorder.event(
            object_reference(BACKUPS, meta), "Normal", "Copied", f"Copied {backup.spec.config_map} to {name}"
        )

    async def _prune(self, backup: Backup, newest: str) -> None:
        """Delete the oldest copies beyond ``keep``. The one just made need not be in the cache yet."""
        copies = self._config_maps.by_index("backup", object_key(backup.metadata))
        older = sorted(
            (copy.metadata for copy in copies if copy.metadata.name != newest),
            key=lambda meta: int(meta.annotations.get(SOURCE_VERSION, "0")),
            reverse=True,
        )
        for meta in older[max(backup.spec.keep - 1, 0) :]:
            await self._delete(meta)

    async def _clean_up(self, backup: Backup) -> None:
        if FINALIZER not in backup.metadata.finalizers:
            return
        # The cache may lag behind a copy that was made a moment ago: the last look is at the server itself.
        selector = f"{OWNER_LABEL}={backup.metadata.name}"
        for copy in (await self._client.list(CONFIG_MAPS, backup.metadata.namespace, label_selector=selector)).items:
            await self._delete(copy.metadata)
        left = tuple(name for name in backup.metadata.finalizers if name != FINALIZER)
        await self._set_finalizers(backup, left)

    async def _delete(self, meta: ObjectMeta) -> None:
        try:
            await self._client.delete(CONFIG_MAPS, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            pass  # what was wanted

    async def _set_finalizers(self, backup: Backup, finalizers: tuple[str, ...]) -> None:
        # With the resourceVersion in it the patch fails with Conflict if somebody else changed the list meanwhile; the
        # key then comes back with backoff and looks again.
        meta = backup.metadata
        patch = merge_patch({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}})
        await self._client.patch(BACKUPS, meta.name, patch, meta.namespace)

    async def _report(self, backup: Backup, status: BackupStatus) -> None:
        meta = backup.metadata
        wanted = {
            "observedGeneration": meta.generation,
            "phase": status.phase,
            "copy": status.copy,
            "sourceVersion": status.source_version,
            "copiedAt": format_time(status.copied_at) if status.copied_at is not None else None,
        }
        if status.phase == backup.status.phase == "Waiting" and backup.status.observed_generation == meta.generation:
            return  # nothing new: a write would only wake us again
        await self._client.patch(
            BACKUPS, meta.name, merge_patch({"status": wanted}), meta.namespace, subresource="status"
        )


async def run(client: Client, env: Env, *, elector: LeaderElector | None = None) -> None:
    """Run the controller until cancelled; with an elector, only while it leads."""
    metrics = Registry()
    recorder = EventRecorder(client, env, NAME)

    async def work() -> None:
        informers = InformerFactory(client, env, metrics=metrics)
        controller = BackupController(client, env, informers, recorder, metrics)
        async with TaskGroup(NAME) as group:
            informers.start(group)
            group.start(recorder.run(), name="events")
            await controller.run()

    if elector is None:
        await work()
    else:
        await elector.run(work)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--leader-elect", action="store_true")
    parser.add_argument("--namespace", default="default", help="where the Lease is kept")
    parser.add_argument("--v", type=int, default=0)
    options = parser.parse_args()
    configure(v=options.v)

    async def program() -> None:
        # A kubelet, or systemd, says it with SIGTERM: then, too, what is begun is finished, and the Lease released.
        this = asyncio.current_task()
        assert this is not None, "this is a task"
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
        env = Env()
        try:
            transport = connect(env, kubeconfig=options.kubeconfig, environ=os.environ)
        except ConfigError as error:
            raise SystemExit(f"Error: {error}") from error
        if not options.leader_elect:
            await run(Client(transport, env), env)
            return
        # The controller's client refuses to write once the lease may be somebody else's; the elector's must not.
        fence = Fence(env)
        elector = LeaderElector(
            Client(transport, env),
            env,
            identity=f"{socket.gethostname()}_{env.uid()}",
            name=NAME,
            namespace=options.namespace,
            fence=fence,
        )
        await run(Client(transport, env, fence=fence.check), env, elector=elector)

    try:
        loops.run(program())
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped")


if __name__ == "__main__":
    main()
