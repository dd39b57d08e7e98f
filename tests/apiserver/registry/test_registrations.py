"""Every built-in kind is registered once, in the package of its group and resource."""

from importlib import import_module
from pathlib import Path

import pytest

from pilothouse.apiserver import registry
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.registry.generic.printers import NAME_AND_AGE
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.resources import BEHIND_GATES, ResourceInfo, built_in, gated

STORED = [info for info in (*built_in(), *gated(BEHIND_GATES)) if {"get", "list"} & {*info.verbs}]


@pytest.mark.parametrize("info", STORED, ids=lambda info: f"{info.api_version} {info.kind}")
def test_readable_kinds_are_declared_by_their_package(info: ResourceInfo) -> None:
    package = f"{registry.__name__}.{info.group.partition('.')[0] or 'core'}.{info.resource}"
    declared = import_module(package).REGISTRATION
    assert isinstance(declared, Registration)
    assert registration_of(info.group, info.resource) is declared


@pytest.mark.parametrize("info", STORED, ids=lambda info: f"{info.api_version} {info.kind}")
def test_tables_have_a_name_column_and_no_duplicates(info: ResourceInfo) -> None:
    printer = (registration_of(info.group, info.resource).printer or (lambda: NAME_AND_AGE))()
    names = [column.name for column in printer.columns]
    assert "Name" in names
    assert len(names) == len({*names})


def test_every_declared_kind_is_served() -> None:
    """A package with a misspelled name would leave its kind without rules, silently."""
    root = Path(registry.__file__).parent
    served = {(info.group.partition(".")[0] or "core", info.resource) for info in (*built_in(), *gated(BEHIND_GATES))}
    declared = {
        (path.parent.parent.name, path.parent.name)
        for path in root.glob("*/*/__init__.py")
        if "REGISTRATION" in path.read_text()
    }
    assert declared <= served


def test_strategies_are_not_shared() -> None:
    """A server with gates changes its copy of a strategy; two kinds must not share one."""
    strategies = [registration_of(info.group, info.resource).strategy for info in STORED]
    kinds = {(info.group, info.resource) for info in STORED}
    assert len({id(strategy) for strategy in strategies}) == len(kinds)
