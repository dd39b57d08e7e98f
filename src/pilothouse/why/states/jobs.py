"""Jobs that failed or make no progress, and CronJobs with missed schedules."""

import datetime

from pilothouse.machinery.cron import CronError, parse_schedule
from pilothouse.machinery.times import TimeError, format_time, parse_time
from pilothouse.machinery.zones import UnknownZone, load_zone
from pilothouse.why.evidence import Document, Reference
from pilothouse.why.states.lifetime import created, last_change
from pilothouse.why.states.pods import STARTING
from pilothouse.why.states.rejections import deletion_rejection, rejection
from pilothouse.why.states.replicas import unready_pod_steps
from pilothouse.why.steps import STATE, TIME, TOO_MANY_PODS, Step, pluralize
from pilothouse.why.view import Finding, View, condition, controller_of, is_finished

_SHOWN_PODS = 5
_MAX_MISSED = 100
"""Upstream warns of more missed times (cronjob ``utils.go``, ``mostRecentScheduleTime``, v1.36)."""


async def job(view: View) -> Finding | None:
    """A Job that failed, is suspended, or is not complete."""
    failed = view.condition("Failed") or view.condition("FailureTarget")
    if failed.get("status") == "True":
        return Finding("failed", await _failed(view, failed))
    complete = view.condition("Complete")
    if complete.get("status") == "True":
        return Finding("completed", (await _completed(view, complete),))
    pods = await _pods_of(view)
    excess = await _too_many(view, pods)
    if excess is not None:
        return excess
    if view.spec.get("suspend"):
        text = "is suspended: spec.suspend is true, so it has no pods"
        return Finding("suspended", (view.step(text, root=STATE, because=await _last_change_steps(view)),))
    failed_pods = [pod for pod in pods if _phase(pod) == "Failed"]
    succeeded, completions = view.status.get("succeeded", 0), view.spec.get("completions", 1)
    if not failed_pods:
        return await _not_running(view, pods)
    failures, limit = view.status.get("failed", 0), view.spec.get("backoffLimit", 6)
    text = (
        f"has {succeeded} of {completions} completions after {pluralize(failures, 'failure')}; "
        f"the back-off limit is {limit}, and each failure doubles the wait before the next pod, "
        "from 10 seconds up to 10 minutes"
    )
    # A pod that is held up delays the Job more than those that failed before it.
    because = [step for step in await _unready_steps(view, pods) if not step.text.endswith(STARTING)]
    because += [await _failure(view, pod) for pod in failed_pods[-_SHOWN_PODS:]]
    return Finding("retrying", (view.step(text, root=STATE, because=because),))


async def _completed(view: View, complete: Document) -> Step:
    creation = await created(view)
    succeeded = pluralize(int(view.status.get("succeeded") or 0), "pod")
    step = view.step(
        f"completed: {succeeded} succeeded", root=STATE, because=[creation] if creation is not None else []
    )
    step.time = complete.get("lastTransitionTime") or ""
    return step


async def _too_many(view: View, pods: list[Document]) -> Finding | None:
    """A Job that has more pods than its parallelism, or pods although it is suspended, and why their deletion fails."""
    suspended = bool(view.spec.get("suspend"))
    parallel = 0 if suspended else int(view.spec.get("parallelism", 1))
    active = [pod for pod in _active(pods) if not (pod.get("metadata") or {}).get("deletionTimestamp")]
    if len(active) <= parallel:
        return None
    undeleted = await deletion_rejection(view)
    should = (
        "is suspended and should have no pods" if suspended else f"should have {pluralize(parallel, 'pod')} at a time"
    )
    because = [*([undeleted] if undeleted is not None else []), *await _last_change_steps(view)]
    return Finding(TOO_MANY_PODS, (view.step(f"{should}, has {len(active)}", root=STATE, because=because),))


async def _not_running(view: View, pods: list[Document]) -> Finding | None:
    """An active Job whose pods can't be created or do not run."""
    if not view.status.get("startTime"):
        manager = view.spec.get("managedBy") or "job-controller"
        text = f"was not started: {manager} has not set status.startTime"
        return Finding("not started", (view.step(text, root=STATE, because=await _last_change_steps(view)),))
    active = _active(pods)
    ready = [pod for pod in active if condition(pod, "Ready").get("status") == "True"]
    because = await _unready_steps(view, pods)
    rejected = await rejection(view)
    if rejected is not None:
        changes = await _last_change_steps(view) if rejected.object == view.title else []
        because = [rejected, *because, *changes]
    if not because:
        return None
    parallel = view.spec.get("parallelism", 1)
    text = f"should have {pluralize(parallel, 'pod')} at a time, has {len(active)}, of which {len(ready)} are ready"
    return Finding("not running", (view.step(text, because=because),))


async def _unready_steps(view: View, pods: list[Document]) -> list[Step]:
    return await unready_pod_steps([view.of("pods", pod["metadata"]["name"], pod) for pod in _active(pods)])


def _active(pods: list[Document]) -> list[Document]:
    return [pod for pod in pods if not is_finished(pod)]


async def _failed(view: View, failed: Document) -> tuple[Step, ...]:
    pods = [pod for pod in await _pods_of(view) if _phase(pod) == "Failed"]
    step = view.step(f"failed: {failed.get('reason')}: {failed.get('message')}", root=STATE)
    step.time = failed.get("lastTransitionTime") or ""
    step.because = [await _failure(view, pod) for pod in pods[-_SHOWN_PODS:]]
    if failed.get("reason") == "DeadlineExceeded":
        step.root = TIME
        creation = await created(view)
        step.because += [creation] if creation is not None else []
    return (step,)


async def _failure(view: View, pod: Document) -> Step:
    """How one pod failed."""
    pod_view = view.of("pods", pod["metadata"]["name"], pod)
    for change in await pod_view.own_changes():
        after = await view.evidence.after(change)
        if change.type != "DELETED" and after is not None and _phase(after) == "Failed":
            return await view.chain.step(change)
    status = pod.get("status") or {}
    return pod_view.step(f"failed: {status.get('reason') or ''} {status.get('message') or ''}".rstrip(": "), root=STATE)


def _phase(pod: Document) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


async def _pods_of(view: View) -> list[Document]:
    pods = await view.evidence.objects("pods", view.reference.namespace)
    return [pod for pod in pods if controller_of(pod).get("uid") == view.uid]


async def _last_change_steps(view: View) -> list[Step]:
    change = await last_change(view)
    return [] if change is None else [change]


async def cron_job(view: View) -> Finding | None:
    """The next scheduled time of a CronJob, and why the last one was missed."""
    spec = view.spec
    if spec.get("suspend"):
        step = view.step("starts no Jobs: spec.suspend is true", root=STATE, because=await _last_change_steps(view))
        return Finding("suspended", (step,))
    try:
        zone = load_zone(spec["timeZone"]) if spec.get("timeZone") else datetime.UTC
        schedule = parse_schedule(spec.get("schedule") or "", zone)
    except (CronError, UnknownZone) as error:
        step = view.step(
            f"starts no Jobs: its schedule can't be read: {error}", root=STATE, because=await _last_change_steps(view)
        )
        return Finding("invalid schedule", (step,))
    last = _time(view.status.get("lastScheduleTime")) or _time(view.metadata.get("creationTimestamp"))
    if last is None:
        return None
    missed_times: list[datetime.datetime] = []
    next_time = schedule.next(last)
    while next_time is not None and next_time <= view.time and len(missed_times) < _MAX_MISSED:
        missed_times.append(next_time)
        next_time = schedule.next(next_time)
    upcoming = schedule.next(view.time)
    when = f"next at {format_time(upcoming)}" if upcoming is not None else "and has no next time within five years"
    zone_text = f" in {spec['timeZone']}" if spec.get("timeZone") else ""
    text = f"runs at {spec.get('schedule')}{zone_text}, {when}"
    if not missed_times:
        return Finding("waiting for its time", (view.step(text, root=TIME),))
    return Finding("did not start", (view.step(text, root=STATE, because=await _missed_steps(view, missed_times)),))


async def _missed_steps(view: View, missed_times: list[datetime.datetime]) -> list[Step]:
    due = missed_times[-1]
    more = f"{len(missed_times)}{' or more' if len(missed_times) == _MAX_MISSED else ''}"
    several = (
        f"has missed {more} times since {format_time(missed_times[0])}"
        if len(missed_times) > 1
        else "has missed its time"
    )
    active = [reference.get("name", "") for reference in view.status.get("active") or ()]
    if view.spec.get("concurrencyPolicy") == "Forbid" and active:
        active_steps = [await _still_active(view, name) for name in active[:_SHOWN_PODS]]
        verb = "are" if len(active) > 1 else "is"
        text = f"{several}: concurrencyPolicy is Forbid, and {', '.join(active[:_SHOWN_PODS])} {verb} not finished"
        return [view.step(text, root=STATE, because=active_steps)]
    deadline = view.spec.get("startingDeadlineSeconds")
    late = (view.time - due).total_seconds()
    if deadline is not None and late > deadline:
        text = (
            f"{several}: {late:.0f} s ago, and startingDeadlineSeconds is {deadline}: the controller did not run then"
        )
        return [view.step(text, root=STATE)]
    events = [event for event in await view.evidence.events(view.reference, view.uid) if event.type == "Warning"]
    detail = f": {events[-1].reason}: {events[-1].message}" if events else ": no controller has synced it since"
    return [view.step(f"{several}{detail}", root=STATE)]


async def _still_active(view: View, name: str) -> Step:
    reference = Reference("jobs.batch", view.reference.namespace, name)
    job_view = view.of("jobs.batch", name, await view.evidence.get(reference))
    finding = await job(job_view)
    if finding is not None:
        return finding.steps[0]
    since = job_view.status.get("startTime")
    return job_view.step(f"runs{f', since {since}' if since else ''}", root=STATE)


def _time(text: object) -> datetime.datetime | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        return parse_time(text)
    except TimeError:
        return None
