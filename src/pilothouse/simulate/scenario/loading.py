"""``load``: reads a scenario file and the files that it refers to, and validates them before the run."""

import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.controllermanager.selection import hint_of_controller, unknown_names
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import FlagError, closest
from pilothouse.machinery.labels import SelectorError, parse_selector
from pilothouse.machinery.names import dns_subdomain_errors
from pilothouse.machinery.times import TimeError, format_time, parse_time
from pilothouse.simulate.scenario import actions, positions, scalars, schema
from pilothouse.simulate.scenario.errors import ScenarioError, located, positioned, shown_path
from pilothouse.simulate.scenario.files import FileError, check_regular, text_of
from pilothouse.simulate.scenario.objects import ObjectsError, is_same_object, objects_of, position_of, shortened
from pilothouse.simulate.scenario.positions import Positions, Step
from pilothouse.simulate.scenario.schema import ScenarioFile, Spec

if typing.TYPE_CHECKING:
    from pilothouse.nodes.stages import Stage
    from pilothouse.snapshots.restoring import Restored

with lazy_imports():
    from pilothouse.controllermanager import flags as manager_flags
    from pilothouse.nodes import stages
    from pilothouse.simulate.scenario import overrides as changes
    from pilothouse.snapshots import file_format, opening

__all__ = ["Scenario", "ScenarioError", "load"]


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario with the content of all referenced files: the input of a run."""

    name: str
    source: str
    """The path of the file as specified by the user."""
    spec: Spec
    objects: tuple[dict[str, Any], ...]
    applied: dict[int, tuple[dict[str, Any], ...]]
    """The objects of ``apply`` entries, by entry number."""
    stages: "tuple[Stage, ...]"
    manager: Options
    snapshot: "Restored | None" = None
    """The initial objects of the cluster."""
    program: str
    """FILE or FILE:NAME of an operator, relative to the working directory; empty if there is none."""
    lines: Mapping[str, int]
    """The line numbers of expectations and entries, by path."""

    def where(self, path: str) -> str:
        """``FILE:LINE: PATH``, for messages."""
        return f"{self.source}:{self.lines.get(path, 1)}: {path}"

    def object_position(self, document: dict[str, Any]) -> str:
        """``FILE:LINE: PATH: `` of an initial object, for messages; of one from a manifest also its place there."""
        for number, entry in enumerate(self.spec.objects):
            if isinstance(entry, dict) and is_same_object(entry, document):
                return f"{self.where(f'spec.objects[{number}]')}: "
        return f"{self.source}: spec.objects: {self.position_of(self.spec.objects, document)}"

    def position_of(self, entries: Sequence[Any], document: dict[str, Any]) -> str:
        """``FILE:LINE: `` of an object from a manifest, for messages, else empty."""
        position = position_of(entries, Path(self.source).resolve().parent, document)
        return f"{position}: " if position else ""


def load(path: str, *, overrides: Sequence[tuple[str, Any]] = ()) -> Scenario:
    """Read and validate a file. ``overrides`` are paths and values that replace those in the file. Raises
    ``ScenarioError``."""
    text = _text(path)
    try:
        document, where = positions.read(text)
    except positions.PositionedError as error:
        raise ScenarioError(f"{path}:{error.line or 1}: {error}") from None
    if not isinstance(document, dict):
        raise ScenarioError(f"{path}:1: expected a scenario: apiVersion: {schema.API_VERSION}, kind: {schema.KIND}")
    of_objects: list[tuple[str, Any]] = []
    for name, value in overrides:
        try:
            document, of_object = changes.changed(document, name, value, where)
        except ValueError as error:
            raise ScenarioError(f"{path}: {error}") from None
        of_objects += of_object
    try:
        file = msgspec.convert(document, ScenarioFile, dec_hook=scalars.decode)
    except msgspec.ValidationError as error:
        raise positioned(path, error, document, where, ScenarioFile) from None
    return _Loader(path, document, where, file, of_objects).load()


def _text(path: str) -> str:
    try:
        return text_of(Path(path), positions.MAX_BYTES)
    except FileError as error:
        raise ScenarioError(f"{path}: unable to read the scenario: {error}") from error


class _Loader:
    """Validates constraints that the types cannot express, and reads the referenced files."""

    def __init__(
        self, source: str, document: Any, where: Positions, file: ScenarioFile, overrides: list[tuple[str, Any]]
    ) -> None:
        self._source = source
        self._document = document
        self._where = where
        self._name = file.metadata.name
        self._spec = file.spec
        self._folder = Path(source).resolve().parent
        self._snapshot: Restored | None = None
        self._overrides = overrides

    def load(self) -> Scenario:
        self._restore()
        spec = self._spec
        self._check_cluster()
        self._check_timeline()
        self._check_expectations()
        objects = self._objects([(entry, ("spec", "objects", number)) for number, entry in enumerate(spec.objects)])
        for name, value in self._overrides:
            try:
                objects = changes.changed_objects(objects, name, value)
            except ValueError as error:
                raise ScenarioError(f"{self._source}: {error}") from None
        return Scenario(
            name=self._name,
            source=self._source,
            spec=spec,
            objects=tuple(objects),
            applied=dict(self._applied()),
            stages=self._stages(),
            manager=self._manager(),
            snapshot=self._snapshot,
            program=self._program(),
            lines=dict(self._lines()),
        )

    def _error(self, path: Sequence[Step], message: str) -> ScenarioError:
        return located(self._source, path, message, self._document, self._where)

    def _restore(self) -> None:
        """Read the snapshot; it provides the nodes and the start time."""
        cluster, path = self._spec.cluster, ("spec", "cluster", "snapshot")
        if not cluster.snapshot:
            return
        try:
            restored = opening.restored(self._folder / cluster.snapshot, gates=_on(cluster.feature_gates))
        except file_format.SnapshotError as error:
            raise self._error(path, str(error)) from None
        except OSError as error:
            raise self._error(path, f"{self._folder / cluster.snapshot}: {error.strerror}") from None
        fields = self._document["spec"]["cluster"]
        if "nodeGroups" not in fields:
            cluster = msgspec.structs.replace(cluster, node_groups=())
        if "start" not in fields and restored.time is not None:
            cluster = msgspec.structs.replace(cluster, start=format_time(restored.time))
        self._spec = msgspec.structs.replace(self._spec, cluster=cluster)
        self._snapshot = restored

    def _objects(self, entries: Iterable[tuple[Any, tuple[Step, ...]]]) -> list[dict[str, Any]]:
        """The objects of entries with their paths. The error has those of all entries."""
        objects, errors = list[dict[str, Any]](), list[str]()
        for entry, path in entries:
            try:
                objects += objects_of(entry, self._folder)
            except ObjectsError as error:
                errors += [str(self._error(path, message)) for message in error.messages]
        if errors:
            raise ScenarioError("\n".join(shortened(errors)))
        return objects

    def _applied(self) -> Iterator[tuple[int, tuple[dict[str, Any], ...]]]:
        for number, entry in enumerate(self._spec.timeline):
            if entry.apply is not None:
                path = ("spec", "timeline", number, "apply")
                entries = entry.apply if isinstance(entry.apply, tuple) else (entry.apply,)
                yield number, tuple(self._objects((one, path) for one in entries))

    def _check_cluster(self) -> None:
        cluster, base = self._spec.cluster, ("spec", "cluster")
        try:
            parse_time(cluster.start)
        except TimeError as error:
            raise self._error((*base, "start"), str(error)) from None
        for number, group in enumerate(cluster.node_groups):
            if wrong := dns_subdomain_errors(f"{group.name}-0"):
                raise self._error((*base, "nodeGroups", number, "name"), wrong[0])
        for number, rule in enumerate(cluster.pods):
            self._check_selector(rule.selector, (*base, "pods", number, "selector"))

    def _check_selector(self, text: str, path: Sequence[Step]) -> None:
        try:
            parse_selector(text)
        except SelectorError as error:
            raise self._error(path, str(error)) from None

    def _check_timeline(self) -> None:
        groups = {group.name for group in self._spec.cluster.node_groups}
        zones = {group.zone for group in self._spec.cluster.node_groups}
        zones |= {node.zone for node in self._snapshot.nodes} if self._snapshot is not None else set()
        for number, entry in enumerate(self._spec.timeline):
            name = entry.action
            field, action = msgspec.structs.fields(actions.Entry), getattr(entry, name)
            encoded = next(field_info.encode_name for field_info in field if field_info.name == name)
            path = ("spec", "timeline", number, encoded)
            if name == "manager" and self._spec.programs:
                raise self._error(
                    path, "the scenario has a program, which replaces the manager: use the action program"
                )
            if name == "program" and not self._spec.programs:
                raise self._error(path, "there is no program: name one in spec.programs, or use the action manager")
            self._check_selector(getattr(action, "selector", ""), (*path, "selector"))
            if isinstance(action, actions.NodeSelection):
                self._check_count(action, (*path, "count"))
            for field_name, names in (("group", groups), ("zone", zones)):
                selected = getattr(action, field_name, "") if isinstance(action, actions.NodeSelection) else ""
                if selected and selected not in names:
                    listed = ", ".join(sorted(names - {""})) or "none"
                    raise self._error(
                        (*path, field_name), f'no node group has the {field_name} "{selected}"; there are {listed}'
                    )

    def _check_count(self, selection: actions.NodeSelection, path: Sequence[Step]) -> None:
        """Check ``count`` as far as possible: labels are only known when the action is performed."""
        if selection.count is None:
            return
        named = {*selection.names, *([selection.name] if selection.name else [])}
        zones = [
            (f"{group.name}-{number}", group.name, group.zone)
            for group in self._spec.cluster.node_groups
            for number in range(group.count)
        ]
        zones += [(node.name, "", node.zone) for node in self._snapshot.nodes] if self._snapshot is not None else []
        most = sum(
            (not named or name in named) and selection.group in ("", group) and selection.zone in ("", zone)
            for name, group, zone in zones
        )
        if selection.count > most:
            have = "1 node matches" if most == 1 else f"only {most} nodes match"
            raise self._error(path, f"count is {selection.count}, and {have}")

    def _check_expectations(self) -> None:
        names = [entry.name for entry in self._spec.timeline if entry.name]
        for number, rule in enumerate(self._spec.expect.eventually):
            if rule.after and rule.after not in names:
                listed = f"; there are {', '.join(names)}" if names else ""
                path = ("spec", "expect", "eventually", number, "after")
                raise self._error(path, f'no entry of the timeline is named "{rule.after}"{listed}')
        until = self._spec.until
        for number, entry in enumerate(self._spec.timeline):
            field, first = ("every", entry.every) if entry.at is None else ("at", entry.at)
            if first is not None and until.time is not None and first > until.time:
                position = ("spec", "timeline", number, field)
                raise self._error(position, f"the run ends before, after {until.time} (until.time)")
        faults = self._spec.faults
        if faults is not None and until.time is not None and faults.after >= until.time:
            message = f"no fault can start: the run ends before, after {until.time} (until.time)"
            raise self._error(("spec", "faults", "after"), message)
        endless = [entry for entry in self._spec.timeline if entry.every is not None and entry.until is None]
        if endless and until.time is None:
            raise self._error(("spec", "until"), "an entry repeats forever (every without until): give a time")

    def _manager(self) -> Options:
        manager, path = self._spec.manager, ("spec", "manager")
        if unknown := unknown_names(manager.controllers, DESCRIPTORS):
            hint = hint_of_controller(unknown[0], DESCRIPTORS)
            raise self._error((*path, "controllers"), f'"{unknown[0]}" is not in the list of known controllers{hint}')
        flags = manager_flags.flag_set("manager", DESCRIPTORS)
        for name in manager.flags:
            if name in ("controllers", "leader-elect"):
                field = "controllers" if name == "controllers" else "leaderElect"
                raise self._error((*path, "flags", name), f"use manager.{field}")
            if name not in flags:
                near = closest(name, [flag.name for flag in flags])
                hint = f"did you mean {near}?" if near else "see docs/reference/flags.md"
                raise self._error((*path, "flags", name), f"the manager has no such flag; {hint}")
            self._check_regular(str(manager.flags[name]), (*path, "flags", name))
        words = [f"--{name}={_flag_text(value)}" for name, value in manager.flags.items()]
        words.append(f"--controllers={','.join(manager.controllers)}")
        words.append(f"--leader-elect={str(manager.leader_elect).lower()}")
        gates = [f"--feature-gates={name}={value}" for name, value in self._spec.cluster.feature_gates.items()]
        try:
            manager_flags.options_from(flags.parse(gates), DESCRIPTORS)
        except FlagError as error:
            raise self._error(("spec", "cluster", "featureGates"), str(error)) from None
        try:
            options = manager_flags.options_from(flags.parse([*words, *gates]), DESCRIPTORS)
        except FlagError as error:
            raise self._error((*path, "flags"), str(error)) from None
        # A process that is killed does not release its lease; one that exits normally does.
        election = msgspec.structs.replace(options.leader_election, release_on_stop=False)
        return msgspec.structs.replace(
            options, leader_election=election if manager.leader_elect else LeaderElection(enabled=False)
        )

    def _check_regular(self, text: str, path: Sequence[Step]) -> None:
        """Check that a referenced file is a regular file."""
        try:
            check_regular(Path(text))
        except FileError as error:
            raise self._error(path, str(error)) from None

    def _program(self) -> str:
        if not self._spec.programs:
            return ""
        reference = self._spec.programs[0].operator
        path, _colon, name = reference.partition(":")
        file = self._folder / path
        if not file.is_file():
            raise self._error(("spec", "programs", 0, "operator"), f"{file}: no such file; expected FILE or FILE:NAME")
        return f"{file}:{name}" if name else str(file)

    def _stages(self) -> "tuple[Stage, ...]":
        paths = self._spec.cluster.stages
        if not paths:
            return ()
        named = [paths] if isinstance(paths, str) else list(paths)
        for name in named:
            self._check_regular(str(self._folder / name), ("spec", "cluster", "stages"))
        try:
            return stages.load_stages([str(self._folder / name) for name in named])
        except stages.StageError as error:
            raise self._error(("spec", "cluster", "stages"), str(error)) from None

    def _lines(self) -> Iterator[tuple[str, int]]:
        expect = self._spec.expect
        paths: list[tuple[Step, ...]] = [("spec", "timeline", number) for number in range(len(self._spec.timeline))]
        paths += [("spec", "objects", number) for number in range(len(self._spec.objects))]
        paths += [("spec", "faults")] if self._spec.faults is not None else []
        paths += [("spec", "timeline", number, "when") for number in range(len(self._spec.timeline))]
        for field, rules in (("always", expect.always), ("eventually", expect.eventually), ("atEnd", expect.at_end)):
            paths += [("spec", "expect", field, number) for number in range(len(rules))]
        paths += [("spec", "expect", "budgets", number) for number in range(len(expect.budgets))]
        paths += [("spec", "expect", "invariants", number) for number in range(len(expect.invariants))]
        for path in paths:
            yield shown_path(path), self._where.line(self._document, path)


def _on(gates: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(name for name, on in gates.items() if on)


def _flag_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
