"""Finds objects by a part of their name, of every kind that is stored."""

from collections.abc import Sequence
from typing import Any

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.env import Env
from pilothouse.ui.objects import Objects
from pilothouse.ui.slices import Slices

MAX_FOUND = 100
MAX_GONE = 50
"""So many are found beside, of those that are gone."""
_PAGE = 1000
_LONGEST = 100
_AT_ONCE = 500
"""Changes of the history that are searched in about a millisecond."""


class Search:
    """Searches the keys of one server: names and namespaces, nothing that objects say."""

    def __init__(self, env: Env, core: Core, objects: Objects) -> None:
        self._env = env
        self._core = core
        self._objects = objects

    async def find(self, text: str) -> dict[str, Any]:
        """The objects whose namespace and name contain every word; a first word that is the name of a kind or resource,
        or a short name, restricts it to that. Those that are gone come last, as far back as the history goes. Events
        are left out: they are found at their objects."""
        words = text[:_LONGEST].lower().split()
        infos = [info for info in self._objects.infos() if info.resource != "events"]
        of_kind = [info for info in infos if words and words[0] in _names_of(info)]
        if of_kind:
            infos, words = of_kind, words[1:]
        elif not words:
            infos = []
        slices = Slices(self._env.perf_counter)
        found: list[dict[str, Any]] = []
        for info in infos:
            after = info.prefix
            while len(found) < MAX_FOUND:
                records = self._core.store.list(info.prefix, after=after, limit=_PAGE).records
                fitting = [record.key for record in records if _fits(record.key[len(info.prefix) :].lower(), words)]
                found += [{"key": key, "kind": info.kind} for key in fitting[: MAX_FOUND - len(found)]]
                await slices.turn()
                if len(records) < _PAGE:
                    break
                after = records[-1].key
        more = len(found) == MAX_FOUND
        for info in infos if words else ():
            found += await self._gone(info, words, min(MAX_GONE, MAX_FOUND + MAX_GONE - len(found)), slices)
        return {"found": found, "more": more}

    async def _gone(self, info: ResourceInfo, words: Sequence[str], most: int, slices: Slices) -> list[dict[str, Any]]:
        """The objects of a kind that the history has and that are not there any more, last deleted first."""
        store = self._core.store
        seen, found = set[str](), list[dict[str, Any]]()
        for number, change in enumerate(reversed(store.changes(info.prefix)) if most else ()):
            if number % _AT_ONCE == 0:
                await slices.turn()
            key = change.key
            if change.type != "DELETED" or key in seen or not _fits(key[len(info.prefix) :].lower(), words):
                continue
            seen.add(key)
            if store.get(key) is None:
                found.append({"key": key, "kind": info.kind, "gone": True})
                if len(found) == most:
                    break
        return found

    def kinds(self) -> list[dict[str, Any]]:
        """What is stored, and how much of it."""
        store = self._core.store
        return [
            {"kind": info.kind, "group": info.group, "resource": info.resource, "count": count}
            for info in sorted(self._objects.infos(), key=lambda info: (info.group, info.resource))
            if info.group != "events.k8s.io" and (count := store.count(info.prefix))
        ]


def _names_of(info: ResourceInfo) -> tuple[str, ...]:
    return (info.resource, info.singular, info.kind.lower(), *info.short_names)


def _fits(place: str, words: Sequence[str]) -> bool:
    return all(word in place for word in words)
