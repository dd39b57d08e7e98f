"""``pilothouse run FILE --dev``: an operator that starts again whenever its code changes.

The control plane is that of ``up``, in this process, unless the flags specify another API server. The operator has a
separate process (``operator_process``). When a file changes, a second one loads the new code; it replaces the first
only if it can be loaded, and the API server admits its CustomResourceDefinitions. The cluster and its objects are kept.
"""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.cli import apply_manifests, up
from pilothouse.cli import manifests as manifest_files
from pilothouse.cli.clientside import connected
from pilothouse.cli.clusters.process import is_free
from pilothouse.cli.dev_process import LoadFailed, OperatorProcess
from pilothouse.cli.file_changes import Stamp, Watched, changed, stamps
from pilothouse.cli.operator_file import file_and_name
from pilothouse.cli.program import UserError
from pilothouse.client import apply_patch
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.env import Env
from pilothouse.env.zones import local_zone

if TYPE_CHECKING:
    from pilothouse.client import Client
    from pilothouse.machinery.flags import Parsed

_AGENT = "pilothouse-dev"
_POLL_SECONDS = 0.3
_SETTLE_SECONDS = 0.1
_STORED_HINT = " (to remove a version with all its objects: kubectl delete crd, and save the file again)"
_STABLE_ROUNDS = 20
"""Editors and version control write several files, each in several steps: they have two seconds to finish."""
_MAX_NAMES = 5
_PORT_FLAG = "webhook-port"
_PORTS_TRIED = 50
_OFF = ("metrics-bind-address", "health-probe-bind-address")


async def develop(args: Sequence[str], parsed: "Parsed") -> int:
    """Run until cancelled. ``args`` are the command line, ``parsed`` its values."""
    file = file_and_name(parsed.arguments[0])[0].resolve()
    manifests = [Path(path) for path in parsed["apply"]]
    for path in manifests:
        manifest_files.load(str(path))  # report a wrong name or invalid YAML before anything starts
    async with _api_server(parsed) as (client, kubeconfig):
        session = _Session(args, parsed, client, kubeconfig, file, manifests)
        try:
            await session.run()
        finally:
            await session.stop()
    return 0


@contextlib.asynccontextmanager
async def _api_server(parsed: "Parsed") -> "AsyncIterator[tuple[Client, str]]":
    """A client of the API server, and the kubeconfig for it (empty: the one of the environment)."""
    if parsed["kubeconfig"] or parsed["master"]:
        async with connected(parsed, Env(), _AGENT) as client:
            yield client, parsed["kubeconfig"]
        return
    flags = [f"--data-dir={parsed['data-dir']}", *(["--ui"] if parsed["ui"] else [])]
    if "nodes" in parsed.given:
        flags.append(f"--nodes={parsed['nodes']}")
    async with up.running_plane(up.flag_set("up").parse(flags)) as running:
        _say(running.greeting)
        yield running.plane.client(agent=_AGENT), str(running.kubeconfig)


class _Session:
    def __init__(
        self,
        args: Sequence[str],
        parsed: "Parsed",
        client: "Client",
        kubeconfig: str,
        file: Path,
        manifests: Sequence[Path],
    ) -> None:
        self._folder = file.parent
        self._client = client
        self._kubeconfig = kubeconfig
        # Before the given ones, which take precedence.
        self._args = (
            "--install",
            *([f"--kubeconfig={kubeconfig}"] if kubeconfig and not parsed["kubeconfig"] else []),
            *(f"--{flag}=0" for flag in _OFF if flag not in parsed.given),
            *([] if _PORT_FLAG in parsed.given else [f"--{_PORT_FLAG}={_free_port(parsed[_PORT_FLAG])}"]),
            *args,
        )
        self._manifests = manifests
        self._code = (Watched(file), Watched(self._folder, (".py",), recursive=True))
        self._objects = tuple(Watched(path, manifest_files.ENDINGS) for path in manifests)
        self._processes: list[OperatorProcess] = []
        """Those that may still run; the last one is in use."""
        self._began: datetime.datetime | None = None
        self._clock = Env(zone=local_zone())

    async def run(self) -> None:
        code, objects = stamps(self._code), stamps(self._objects)
        applied = await self._reload() and await self._apply()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            self._report_end()
            old, code = code, await self._stable_files(code, self._code)
            files = changed(old, code)
            if files:
                _say(f"{self._shown(files)} changed")
            # A manifest may have been rejected because of fields that only the new definitions have.
            due = bool(files) and await self._reload() and not applied
            old, objects = objects, await self._stable_files(objects, self._objects)
            if due or (changed(old, objects) and self._began):
                applied = await self._apply()

    async def stop(self) -> None:
        """End all processes."""
        for process in self._processes:
            await process.stop()

    async def _stable_files(self, old: dict[Path, Stamp], watched: Sequence[Watched]) -> dict[Path, Stamp]:
        """The files as they are; if they have changed, once they no longer do."""
        now = stamps(watched)
        for _ in range(_STABLE_ROUNDS):
            if now == old:
                break
            await asyncio.sleep(_SETTLE_SECONDS)
            old, now = now, stamps(watched)
        return now

    async def _reload(self) -> bool:
        """Replace the process by a new one, unless its code or its definitions are invalid. Returns whether it was
        replaced."""
        try:
            new = await OperatorProcess.load(self._args)
        except LoadFailed as error:
            self._say_unchanged(str(error))
            return False
        self._processes.append(new)
        try:
            await self._check_definitions(new)
        except (ApiError, OSError) as error:
            await new.stop()
            self._processes.remove(new)
            hint = _STORED_HINT if "status.storedVersions" in str(error) else ""
            self._say_unchanged(f"the API server does not admit the CustomResourceDefinitions: {error}{hint}")
            return False
        for old in self._processes[:-1]:
            await old.stop()
        self._processes = [new]
        first, self._began = self._began is None, self._clock.now()
        await new.begin()
        if new.code is None:
            _say(f"{new.loaded.app} {'started' if first else 'restarted'} with the code of {self._time()}")
        if first:
            _say(self._hint(new))
        return True

    def _say_unchanged(self, reason: str) -> None:
        if self._processes and self._processes[-1].code is None:
            _say(f"{reason}; the code of {self._time()} stays in use until a file changes")
        else:
            _say(f"{reason}; waiting until a file changes")

    def _report_end(self) -> None:
        for process in [operator_process for operator_process in self._processes if operator_process.code is not None]:
            self._processes.remove(process)
            _say(f"{process.loaded.app} ended with code {process.code}; it starts again when a file changes")

    async def _check_definitions(self, new: OperatorProcess) -> None:
        """Check by a dry run whether the API server admits the definitions, and print which are new or changed."""
        client = apply_manifests.warned(self._client, _say)
        for definition in new.loaded.definitions:
            name = definition["metadata"]["name"]
            dry = _decoded(
                await client.patch(
                    CUSTOM_RESOURCE_DEFINITIONS.raw,
                    name,
                    apply_patch(definition),
                    field_manager=new.loaded.app,
                    force=True,
                    dry_run=True,
                )
            )
            try:
                now = _decoded(await client.get(CUSTOM_RESOURCE_DEFINITIONS.raw, name))
            except NotFound:
                _say(f"customresourcedefinitions.apiextensions.k8s.io/{name} created")
                continue
            # Where conversions are called is filled in when they are served.
            if _without_conversion(dry) != _without_conversion(now):
                _say(f"customresourcedefinitions.apiextensions.k8s.io/{name} configured")

    async def _apply(self) -> bool:
        """Apply the manifests. Returns whether all were applied; rejected ones are reported."""
        applied, client = True, apply_manifests.warned(self._client, _say)
        for path in self._manifests:
            try:
                for manifest in manifest_files.load(str(path)):
                    _say(apply_manifests.applied_text(await manifest_files.apply_manifest(client, manifest)))
            except (UserError, OSError) as error:
                applied = False
                _say(f"Error: {error}")
        return applied

    def _hint(self, new: OperatorProcess) -> str:
        kubeconfig = f"--kubeconfig {self._kubeconfig} " if self._kubeconfig else ""
        plurals = [definition["spec"]["names"]["plural"] for definition in new.loaded.definitions]
        return (
            f"It restarts when a file in {self._folder} changes; Ctrl-C stops everything. In a second terminal:\n"
            f"  kubectl {kubeconfig}get {','.join(plurals) or 'pods'} --all-namespaces"
        )

    def _time(self) -> str:
        assert self._began is not None
        return f"{self._began:%H:%M:%S}"

    def _shown(self, paths: Sequence[Path]) -> str:
        names = [str(path.relative_to(self._folder)) for path in paths[:_MAX_NAMES]]
        more = f" and {len(paths) - _MAX_NAMES} more" if len(paths) > _MAX_NAMES else ""
        return ", ".join(names) + more


def _free_port(first: int) -> int:
    """The first port from ``first`` on that no other program listens on, such as a second ``run --dev``."""
    return next((port for port in range(first, first + _PORTS_TRIED) if is_free(port)), first)


def _decoded(raw: msgspec.Raw) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(raw)
    return decoded


def _without_conversion(definition: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in definition["spec"].items() if name != "conversion"}


def _say(text: str) -> None:
    # In one piece, also where output is not buffered: the operator writes to the same terminal.
    print(f"{text}\n", end="", flush=True)
