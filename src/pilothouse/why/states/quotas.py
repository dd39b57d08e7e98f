"""ResourceQuotas: what is used up, its users, and the pods created since the last pod fitted."""

import re
from collections.abc import Iterable

import msgspec

from pilothouse.api.core import ResourceQuota
from pilothouse.controllers.policy.resourcequota.usage import scopes_of
from pilothouse.machinery.quantities import Quantity, QuantityError
from pilothouse.semantics.pod_amounts import amounts
from pilothouse.semantics.quota import PodEvaluator
from pilothouse.why.evidence import Document
from pilothouse.why.states import lifetime
from pilothouse.why.states.owners import workload_of
from pilothouse.why.steps import AS_DESIRED, STATE, TIME, Step, pluralize, tree_lines
from pilothouse.why.view import Finding, View, controller_of, typed

_AMOUNTS = re.compile(r"requested: (\S+), used: (\S+), limited: (\S+)")
_NUMBERS_OF_PODS = ("pods", "count/pods")
_SHOWN = 10
_MAX_NEW = 3


class _User(msgspec.Struct):
    """A workload (or a pod without one), and its pods that the quota counts."""

    view: View
    pods: list[Document]
    new: list[Document]
    used: Quantity
    added: Quantity
    """Used by the new pods."""


async def quota(view: View) -> Finding | None:
    """The amounts of a quota. Without any the admission of new objects fails until the controller has synced it."""
    try:
        limits = amounts(view.spec.get("hard"))
        counted, used = amounts(view.status.get("hard")), amounts(view.status.get("used"))
    except QuantityError:
        return None
    changed = await lifetime.newest_change(view)
    because = [changed] if changed is not None else []
    if not limits.keys() <= used.keys() or counted != limits:
        text = "is not counted yet: resourcequota-controller has not processed its last change"
        return Finding("not processed", (view.step(text, root=STATE, because=because),))
    lines = [f"{name}: {used[name]} of {limits[name]} used" for name in sorted(limits)]
    exhausted = [name for name in sorted(limits) if used[name] >= limits[name]]
    if not exhausted:
        step = changed if changed is not None else lifetime.unrecorded(view)
        step.table = [*step.table, *lines]
        return Finding(AS_DESIRED, (step,))
    step = view.step(f"has no room for more {', '.join(exhausted)}", root=STATE, table=lines, because=because)
    counts_pods = next((name for name in exhausted if PodEvaluator().counts(name)), "")
    if counts_pods:
        step.table += _user_lines(await _quota_users(view, counts_pods, "", view), counts_pods, "")
    return Finding("used up", (step,))


async def exceeded_quota(view: View, message: str, name: str) -> list[Step]:
    """The causes of a quota's rejection of a pod of ``view``: users with pods created since its last pod fitted, or the
    last change of the quota. If the quota would not reject it now, the retry that ``view``'s controller waits for."""
    quota = await view.read("resourcequotas", name)
    if quota.is_unreadable:
        return list((await quota.finding()).steps)
    if quota.now is None:
        gone = list((await quota.finding()).steps)
        return [_retry(view, f"{quota.title} is gone", gone)]
    changed = await lifetime.last_change(quota)
    if room := _room(quota, message):
        return [_retry(view, f"{quota.title} has room now ({room})", [changed] if changed is not None else [])]
    resource, exceeded = _exceeded_resource(message)
    if not resource:
        return [changed if changed is not None else lifetime.unrecorded(quota)]
    top = await workload_of(view) or view
    since = await _last_success(top)
    users = await _quota_users(quota, resource, since, top)
    new = [user for user in users if user.new]
    table = _user_lines(users, resource, since)
    if not new and changed is not None:
        changed.table = [*changed.table, *table]
        return [changed]
    step = quota.step(f"is used up: {exceeded}", root=STATE, table=table)
    step.because = [creation for user in new[:_MAX_NEW] if (creation := await _creation(user)) is not None]
    if changed is not None and changed.time > since:
        step.because.append(changed)
    return [step]


def _retry(view: View, reason: str, last: list[Step]) -> Step:
    """The step of a creation that would succeed now. The last change of the quota is shown, but is no cause."""
    table = ["the delay grows with each failure"]
    for step in last:
        table += ["since then:", *tree_lines(step)]
    return view.step(f"tries again after a delay: {reason}", root=TIME, table=table)


def _room(quota: View, message: str) -> str:
    """The amounts if the rejected request fits now; empty if it does not, or the message has no amounts."""
    match = _AMOUNTS.search(message)
    if match is None:
        return ""
    try:
        requested = amounts(dict(_pairs(match[1])))
        hard, used = amounts(quota.status.get("hard")), amounts(quota.status.get("used"))
    except QuantityError:
        return ""
    limited = {name: amount for name, amount in requested.items() if name in hard}
    if any(used.get(name, Quantity(0)) + amount > hard[name] for name, amount in limited.items()):
        return ""
    texts = [f"{used.get(name, Quantity(0))} of {hard[name]} {name} used" for name in limited]
    return ", ".join(texts) or "it does not limit that any more"


def _exceeded_resource(message: str) -> tuple[str, str]:
    """The first exceeded pod resource of the message, and a text with the amounts."""
    match = _AMOUNTS.search(message)
    requested, used, limited = (dict(_pairs(group)) for group in match.groups()) if match is not None else ({}, {}, {})
    for name in requested:
        if PodEvaluator().counts(name):
            return name, f"{used.get(name)} of {limited.get(name)} {name} used, {requested[name]} more requested"
    return "", ""


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for part in text.split(","):
        name, _equals, amount = part.partition("=")
        yield name, amount


async def _last_success(top: View) -> str:
    """When the last pod of a workload was created; empty if none was."""
    last = ""
    for change in await top.evidence.changes_of_all("pods", top.reference.namespace):
        key = change.cause.key.rpartition("/")[2] if change.cause is not None else ""
        if change.type == "ADDED" and (key == top.reference.name or key.startswith(f"{top.reference.name}-")):
            last = change.time
    return last


async def _quota_users(quota: View, resource: str, since: str, top: View) -> list[_User]:
    """The users of a quota: by usage of new pods, then by total usage, the largest first. The workload is only read of
    those with new pods and of those that are shown."""
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
            users[key] = _User(quota.of("pods", pod["metadata"]["name"], pod), [], [], Quantity(0), Quantity(0))
        user = users[key]
        user.pods.append(pod)
        user.used = user.used + used
        if since and pod["metadata"]["creationTimestamp"] > since[:19]:
            user.new.append(pod)
            user.added = user.added + used
    for user in users.values():
        if user.new:
            user.view = await workload_of(user.view) or user.view
            if user.view.uid == top.uid:
                user.new, user.added = [], Quantity(0)
    largest = sorted(users.values(), key=lambda user: (user.added, user.used), reverse=True)
    for user in largest[:_SHOWN]:
        user.view = await workload_of(user.view) or user.view
    return largest


def _user_lines(users: list[_User], resource: str, since: str) -> list[str]:
    """``job/elo-verify: 400m of 1 pod, new since 02:13:52``."""
    lines = []
    for user in users[:_SHOWN]:
        amount = "" if resource in _NUMBERS_OF_PODS else f"{user.used} {resource} of "
        text = f"{user.view.title}: {amount}{pluralize(len(user.pods), 'pod')}"
        if user.new:
            added = "" if resource in _NUMBERS_OF_PODS else f"{user.added} of "
            part = "" if len(user.new) == len(user.pods) else f"{added}{pluralize(len(user.new), 'pod')} "
            text += f", {part}new since {since[:19]}Z, when the last pod found room"
        lines.append(text)
    if len(users) > _SHOWN:
        lines.append(f"and {len(users) - _SHOWN} more")
    return lines


async def _creation(user: _User) -> Step | None:
    pod = user.new[0]
    return await lifetime.created(user.view.of("pods", pod["metadata"]["name"], pod))
