"""Conditions of a status: one per type, updated without changing the given tuple."""

import datetime
from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec


class _Condition(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def last_transition_time(self) -> datetime.datetime | None: ...


class _Typed(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


C = TypeVar("C", bound=_Condition)
S = TypeVar("S", bound=_Typed)


def find_condition(conditions: Iterable[S], type_: str) -> S | None:
    for condition in conditions:
        if condition.type == type_:
            return condition
    return None


def is_condition_true(conditions: Iterable[_Typed], type_: str) -> bool:
    for condition in conditions:
        if condition.type == type_:
            return condition.status == "True"
    return False


def with_condition(conditions: Iterable[C], new: C) -> tuple[C, ...]:
    """``conditions`` with ``new`` replacing the one of its type, or appended.

    If the status is unchanged, ``last_transition_time`` is, too: it is the time when the status last changed, not when
    it was last observed.
    """
    result = list(conditions)
    for index, old in enumerate(result):
        if old.type == new.type:
            if old.status == new.status:
                new = msgspec.structs.replace(  # type: ignore[type-var]
                    new, last_transition_time=old.last_transition_time
                )
            result[index] = new
            return tuple(result)
    return (*result, new)


def without_condition(conditions: Iterable[S], type_: str) -> tuple[S, ...]:
    return tuple(condition for condition in conditions if condition.type != type_)
