"""The controller descriptors, compared with upstream's table of controllers."""

from typing import NamedTuple

import pytest
from tests.programs import ROOT

from pilothouse.cli.controllers_reference import page, page_of
from pilothouse.controllermanager.compatibility import own_controllers, upstream_names
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.runtime.descriptor import Descriptor

DOCS = ROOT / "docs" / "controllers"
MISSING: set[str] = set()
BY_NAME = {descriptor.name: descriptor for descriptor in DESCRIPTORS}


class Fact(NamedTuple):
    """A line of upstream's table. ``default`` is on, off, or cloud for those that never run there."""

    name: str
    alias: str
    default: str
    gates: str
    client: str
    workers: str


def facts() -> list[Fact]:
    lines = (ROOT / "tests" / "controllermanager" / "upstream_controllers.txt").read_text("utf-8").splitlines()
    return [Fact(*line.split()) for line in lines if not line.startswith("#")]


HERE = [fact for fact in facts() if fact.name in BY_NAME]


def test_every_upstream_controller_is_implemented_or_listed() -> None:
    assert {fact.name for fact in facts()} - BY_NAME.keys() == MISSING
    assert BY_NAME.keys() - {fact.name for fact in facts()} == {
        controller.name for controller in own_controllers(DESCRIPTORS)
    }


def test_own_controllers_do_not_use_upstreams_names() -> None:
    """Neither as name or alias, nor as account, whose role is for upstream's controller."""
    accounts = {fact.client for fact in facts()}
    for descriptor in own_controllers(DESCRIPTORS):
        assert upstream_names().isdisjoint((descriptor.name, *descriptor.aliases))
        assert descriptor.client_name not in accounts


@pytest.mark.parametrize("fact", HERE, ids=lambda fact: fact.name)
def test_descriptor_matches_upstreams(fact: Fact) -> None:
    descriptor = BY_NAME[fact.name]
    assert descriptor.aliases == (() if fact.alias == "-" else (fact.alias,))
    assert descriptor.gates == (() if fact.gates == "-" else tuple(fact.gates.split("+")))
    if fact.default == "cloud":
        assert descriptor.switch, "it runs only where a cloud is named"
        return
    assert descriptor.default_on == (fact.default == "on")
    assert descriptor.client_name == fact.client
    flags = {spec.flag.name: str(spec.flag.default) for spec in descriptor.flags}
    workers = {name: number for name, number in flags.items() if "concurrent" in name and name.endswith("_syncs")}
    workers |= {name: number for name, number in flags.items() if "concurrent" in name and name.endswith("-syncs")}
    expected = {} if fact.workers == "-" else dict([fact.workers.split("=")])
    assert workers == expected


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: descriptor.name)
def test_every_controller_has_a_documentation_page(descriptor: Descriptor) -> None:
    text = (DOCS / page_of(descriptor)).read_text(encoding="utf-8")
    assert text.startswith(f"# {descriptor.name}\n")


def test_list_of_controllers_is_current() -> None:
    assert (DOCS / "index.md").read_text(encoding="utf-8") == page(), "make flags writes it anew"
