"""An operator with webhooks: a Backup is an agent, in two versions, with defaults and validation.

    kind: Backup
    spec: {schedule: "0 3 * * *", retention: {copies: 7, days: 30}}   # in v1: {schedule: "0 3 * * *", keep: 7}

docs/operators.md explains it. ``pilothouse run examples/backup_operator.py --install`` runs it.
"""

from typing import Annotated

import msgspec

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.operator import (
    AdmissionRequest,
    App,
    Condition,
    Context,
    CustomResource,
    Denied,
    ObjectMeta,
    StatusCause,
    Version,
    View,
)

DAYS = "example.com/retention-days"


class Retention(View, frozen=True):
    copies: Annotated[int, msgspec.Meta(ge=0)] = 0
    days: Annotated[int, msgspec.Meta(ge=0)] = 0


class BackupSpec(View, frozen=True):
    schedule: str
    retention: Retention = Retention()


class BackupStatus(View, frozen=True):
    conditions: tuple[Condition, ...] = ()


class Backup(View, frozen=True):
    """Copies that are made at times."""

    spec: BackupSpec
    metadata: ObjectMeta = ObjectMeta()
    status: BackupStatus = BackupStatus()


class BackupSpecV1(View, frozen=True):
    schedule: str
    keep: Annotated[int, msgspec.Meta(ge=0)] = 0


class BackupV1(View, frozen=True):
    spec: BackupSpecV1
    metadata: ObjectMeta = ObjectMeta()
    status: BackupStatus = BackupStatus()


def to_v2(old: BackupV1) -> Backup:
    days = int(old.metadata.annotations.get(DAYS, "0"))
    retention = Retention(copies=old.spec.keep, days=days)
    return Backup(spec=BackupSpec(schedule=old.spec.schedule, retention=retention), status=old.status)


def to_v1(backup: Backup) -> BackupV1:
    retention = backup.spec.retention
    kept = ObjectMeta(annotations={DAYS: str(retention.days)})  # v1 has no field for it
    spec = BackupSpecV1(schedule=backup.spec.schedule, keep=retention.copies)
    return BackupV1(spec=spec, metadata=kept, status=backup.status)


V1 = Version("v1", BackupV1, to_v2, to_v1, deprecated="use example.com/v2")
BACKUPS = CustomResource("example.com/v2", Backup, versions=(V1,))
app = App("backup-operator")


@app.mutating(BACKUPS)
async def keep_seven(backup: Backup, _request: AdmissionRequest[Backup]) -> Backup | None:
    if backup.spec.retention != Retention():
        return None
    spec = msgspec.structs.replace(backup.spec, retention=Retention(copies=7))
    return msgspec.structs.replace(backup, spec=spec)


@app.validating(BACKUPS)
async def check_schedule(backup: Backup, request: AdmissionRequest[Backup]) -> None:
    if len(backup.spec.schedule.split()) != 5:
        cause = StatusCause("FieldValueInvalid", "has five fields, such as 0 3 * * *", "spec.schedule")
        raise Denied("the schedule is wrong", causes=[cause])
    if request.old_object is not None and backup.spec.retention.copies < request.old_object.spec.retention.copies:
        request.warn("older copies are deleted with the next backup")


@app.controller(BACKUPS, owns=(DEPLOYMENTS,))
async def backup_of(backup: Backup, ctx: Context[Backup]) -> None:
    name, retention = backup.metadata.name, backup.spec.retention
    labels = {"backup": name}
    arguments = [backup.spec.schedule, f"--copies={retention.copies}", f"--days={retention.days}"]
    containers = [{"name": "agent", "image": "example.com/backup:1", "args": arguments}]
    pod = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    await ctx.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
    ctx.condition("Scheduled", True, reason="Applied")
