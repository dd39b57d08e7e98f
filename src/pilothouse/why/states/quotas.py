"""A ResourceQuota that leaves no room for a pod: who uses it, and what has come since there was room."""

import re
from collections.abc import Iterable

import msgspec

from pilothouse.api.core import ResourceQuota
from pilothouse.controllers.policy.resourcequota.usage import scopes_of
from pilothouse.machinery.quantities import Quantity, QuantityError
from pilothouse.semantics.quota import PodEvaluator
from pilothouse.why.evidence import Document
from pilothouse.why.states import lifetime
from pilothouse.why.states.owners import workload_of
from pilothouse.why.steps import STATE, Step, counted
from pilothouse.why.view import View, controller_of, typed

_AMOUNTS = re.compile(r"requested: (\S+), used: (\S+), limited: (\S+)")
_SHOWN = 10
_MOST_NEW = 3


class _User(msgspec.Struct):
    """A workload, or a pod of its own, and its pods that the quota counts."""

    view: View
    pods: list[Document]
    new: list[Document]
    used: Quantity
    added: Quantity
    """By the pods that came since there was room."""


async def full(view: View, message: str, name: str) -> list[Step]:
    """What led to a quota's rejection of a pod that ``view`` is to have: those who use it more than when there was room
    for such a pod, or who set the quota."""
    quota = await view.read("resourcequotas", name)
    if quota.now is None:
        return list((await quota.finding()).steps)
    changed = await lifetime.last_change(quota)
    resource, amounts = _exceeded(message)
    if not resource:
        return [changed if changed is not None else quota.step("is older than the history", root=STATE)]
    top = await workload_of(view) or view
    since = await _last_success(top)
    users = await _users(quota, resource, since, top)
    new = [user for user in users if user.new]
    table = _lines(users, resource, since)
    if not new and changed is not None:
        changed.table = [*changed.table, *table]
        return [changed]
    step = quota.step(f"is used up: {amounts}", root=STATE, table=table)
    step.because = [made for each in new[:_MOST_NEW] if (made := await _made(each)) is not None]
    if changed is not None and changed.time > since:
        step.because.append(changed)
    return [step]


def _exceeded(message: str) -> tuple[str, str]:
    """The first resource of pods of which there is too little, and the amounts in words."""
    found = _AMOUNTS.search(message)
    requested, used, limited = (dict(_pairs(group)) for group in found.groups()) if found is not None else ({}, {}, {})
    for name in requested:
        if PodEvaluator().counts(name):
            return name, f"{used.get(name)} of {limited.get(name)} {name} used, {requested[name]} more requested"
    return "", ""


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for part in text.split(","):
        name, _equals, amount = part.partition("=")
        yield name, amount


async def _last_success(top: View) -> str:
    """When the last pod of a workload was created; "" if none was."""
    found = ""
    for change in await top.evidence.changes_of_all("pods", top.reference.namespace):
        key = change.cause.key.rpartition("/")[2] if change.cause is not None else ""
        if change.type == "ADDED" and (key == top.reference.name or key.startswith(f"{top.reference.name}-")):
            found = change.time
    return found


async def _users(quota: View, resource: str, since: str, top: View) -> list[_User]:
    """Those who use a quota: with most new pods first, then by what they use."""
    evaluator = PodEvaluator()
    scopes = scopes_of(typed(quota.now or {}, ResourceQuota))
    users: dict[str, _User] = {}
    for pod in await quota.evidence.objects("pods", quota.reference.namespace):
        try:
            used = evaluator.usage(pod, quota.time).get(resource)
        except QuantityError:
            continue
        if used is None or not all(evaluator.in_scope(scope, pod) for scope in scopes):
            continue
        key = str(controller_of(pod).get("uid") or pod["metadata"]["uid"])
        if key not in users:
            about = quota.of("pods", pod["metadata"]["name"], pod)
            users[key] = _User(await workload_of(about) or about, [], [], Quantity(0), Quantity(0))
        user = users[key]
        user.pods.append(pod)
        user.used = user.used + used
        if since and pod["metadata"]["creationTimestamp"] > since[:19] and user.view.uid != top.uid:
            user.new.append(pod)
            user.added = user.added + used
    return sorted(users.values(), key=lambda each: (each.added, each.used), reverse=True)


def _lines(users: list[_User], resource: str, since: str) -> list[str]:
    """``job/elo-verify: 400m of 1 pod, new since 02:13:52``."""
    lines = []
    for user in users[:_SHOWN]:
        text = f"{user.view.title}: {user.used} {resource} of {counted(len(user.pods), 'pod')}"
        if user.new:
            part = "" if len(user.new) == len(user.pods) else f"{user.added} of {counted(len(user.new), 'pod')} "
            text += f", {part}new since {since[:19]}Z, when the last pod found room"
        lines.append(text)
    if len(users) > _SHOWN:
        lines.append(f"and {len(users) - _SHOWN} more")
    return lines


async def _made(user: _User) -> Step | None:
    pod = user.new[0]
    return await lifetime.created(user.view.of("pods", pod["metadata"]["name"], pod))
