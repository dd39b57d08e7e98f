"""Every flag of kube-controller-manager v1.36 exists in its flag set, with its type and default.

``upstream_flags.txt`` holds the facts, read from ``cmd/kube-controller-manager/app/options`` of v1.36.2: group, name,
type and default of every flag, whatever this release has behind it.
"""

from pathlib import Path

import pytest

from pilothouse.controllermanager.flags import flag_set
from pilothouse.controllermanager.upstream_flags import GROUPS, upstream_flags
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.flags import FlagSet, normalize

FACTS = [
    tuple(line.split("|"))
    for line in (Path(__file__).parent / "upstream_flags.txt").read_text(encoding="utf-8").splitlines()
]
TYPES = {
    "bool": "",
    "int32 list": "int32Slice",
    "level": "Level",
    "list": "namedCertKey",
    "map": "stringToString",
    "multimap": "colonSeparatedMultimapStringString",
}
DECISION_LOG = {"decision-log", "decision-log-maxage", "decision-log-maxbackup", "decision-log-maxsize"}
OURS = {"cloud-loops", "config", "tracing-config-file"} | DECISION_LOG


@pytest.fixture(scope="module")
def flags() -> FlagSet:
    return flag_set("kube-controller-manager", DESCRIPTORS)


def test_every_upstream_flag_exists_and_own_flags_are_marked(flags: FlagSet) -> None:
    known = {normalize(name) for _group, name, _type, _default in FACTS}
    assert len(FACTS) == 150
    assert {normalize(flag.name) for flag in flags} == known | OURS
    assert {flag.name for flag in flags if flag.extra} == OURS


@pytest.mark.parametrize(("group", "name", "kind", "default"), FACTS, ids=[fact[1] for fact in FACTS])
def test_flag_set_type_and_default_are_upstreams(
    flags: FlagSet, group: str, name: str, kind: str, default: str
) -> None:
    flag = flags.flag(name)
    assert flag in flags.groups[group]
    assert flag.type.name == TYPES.get(kind, kind)
    assert flag.shown_default.strip("[]") == default


def test_controller_flags_are_defined_once() -> None:
    own = {spec.flag.name for d in DESCRIPTORS for spec in d.flags}
    twice = [flag.name for _group, flag in upstream_flags("x") if flag.name in own]
    assert twice == [], "the controller's descriptor has these flags now: take them out of upstream_flags.py"


def test_flag_sets_are_upstreams() -> None:
    facts = {group for group, *_rest in FACTS}
    assert facts == {*GROUPS} - {"deprecated"}


def test_ignored_and_deviating_flags_are_explained(flags: FlagSet) -> None:
    for flag in flags:
        assert flag.ignored == flag.note.startswith("no effect"), flag.name
