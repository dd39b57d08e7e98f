"""``--leader-migration-config``: the controllers that migrate between managers, and their lease.

A ``LeaderMigrationConfiguration`` of group ``controllermanager.config.k8s.io``, decoded strictly. Facts:
``k8s.io/controller-manager`` v0.36 ``config`` and ``pkg/leadermigration``. Parsed by ``flags``, used by ``manager``.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flag_types import quoted
from pilothouse.machinery.flags import FlagError

with lazy_imports():
    from pilothouse.controllermanager import yaml_file

GROUP = "controllermanager.config.k8s.io"
KIND = "LeaderMigrationConfiguration"
COMPONENT = "kube-controller-manager"
ANY = "*"
_LOCKS = ("leases", "endpoints")


class Leader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A migrated controller, and the component in which it runs: a name, or ``*`` for any."""

    name: str = ""
    component: str = ""


class LeaderMigration(msgspec.Struct, frozen=True, kw_only=True):
    """The lease for migrated controllers, and these controllers."""

    leader_name: str = "cloud-provider-extraction-migration"
    leaders: tuple[Leader, ...] = (
        Leader("route-controller", ANY),
        Leader("service-controller", ANY),
        Leader("cloud-node-lifecycle-controller", ANY),
    )
    """Upstream's default. The first two are not names of controllers any more, so they match nothing."""

    def component_of(self, controller: str) -> str | None:
        """The component in which the controller runs, ``*`` for any; None if it is not migrated."""
        return next((leader.component for leader in self.leaders if leader.name == controller), None)

    def runs_here(self, controller: str) -> bool:
        """Whether this manager runs the controller under the migration lease."""
        return self.component_of(controller) in {ANY, COMPONENT}


class _Versioned(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """v1: the resource lock is a Lease."""

    api_version: str
    kind: str
    leader_name: str = ""
    controller_leaders: tuple[Leader, ...] = ()


class _WithLock(_Versioned, forbid_unknown_fields=True, rename="camel"):
    """v1beta1 and v1alpha1 have the type of the resource lock."""

    resource_lock: str = ""


_VERSIONS: dict[str, type[_Versioned]] = {"v1": _Versioned, "v1beta1": _WithLock, "v1alpha1": _WithLock}


def load(path: str) -> LeaderMigration:
    """Read the file. Raises ``FlagError`` with its name."""
    if not path:
        return LeaderMigration()
    try:
        document = yaml_file.read_mapping(path)
    except (OSError, ValueError) as error:
        raise FlagError(f"unable to read leader migration configuration from {quoted(path)}: {error}") from error
    return parse(document, path)


def parse(document: dict[str, Any], path: str) -> LeaderMigration:
    """The configuration in a document. Raises ``FlagError`` with the file's name."""
    group, _slash, version = str(document.get("apiVersion", "")).rpartition("/")
    if (group, document.get("kind")) != (GROUP, KIND) or version not in _VERSIONS:
        raise FlagError(
            f"{path}: unexpected config type: {document.get('apiVersion')}, Kind={document.get('kind')}; "
            f"wanted {GROUP}/v1, Kind={KIND}"
        )
    try:
        read = msgspec.convert(document, _VERSIONS[version])
    except msgspec.ValidationError as error:
        raise FlagError(f"{path}: strict decoding error: {error}") from error
    errors = list(_validate(read))
    if errors:
        raise FlagError(f"{path}: failed to parse leader migration configuration: [{', '.join(errors)}]")
    return LeaderMigration(leader_name=read.leader_name, leaders=read.controller_leaders)


def _validate(read: _Versioned) -> Iterator[str]:
    if not read.leader_name:
        yield "leaderName: Required value: leaderName must be set for LeaderMigrationConfiguration"
    if isinstance(read, _WithLock) and read.resource_lock not in _LOCKS:
        yield (
            f"resourceLock: Invalid value: {quoted(read.resource_lock)}: resource Lock must be one of 'leases' or "
            "'endpoints'"
        )
    for index, leader in enumerate(read.controller_leaders):
        for field, value in (("name", leader.name), ("component", leader.component)):
            if not value:
                path = f"controllerLeaders[{index}].{field}"
                yield f"{path}: Required value: {field} must be set for ControllerLeaderConfiguration"
