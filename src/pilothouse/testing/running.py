"""Programs under test: an ``App`` or a coroutine function, its identity, and requests that it was not allowed to send.

``AsyncCluster.running`` and ``Cluster.running`` run a ``ProgramUnderTest``; ``wait_for`` gets the reasons from those of
its plane if an object is not as expected.
"""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api import wire
from pilothouse.apiserver import ApiServer
from pilothouse.client import Client
from pilothouse.client.request_info import RequestInfo
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.plane import LocalClients
from pilothouse.plane.clients import ADMIN, as_it_is

if TYPE_CHECKING:
    from pilothouse.client.interceptor import Rule
    from pilothouse.operator import App, Settings
    from pilothouse.operator.webhook_handler import WebhookHandler

with lazy_imports():
    from pilothouse.client import interceptor
    from pilothouse.operator import app as operator_app
    from pilothouse.operator import arguments
    from pilothouse.operator import manifests as operator_manifests
    from pilothouse.operator import rights as operator_rights
    from pilothouse.testing import mistakes

Program = Callable[[Client, Env], Coroutine[Any, Any, object]]
_ACCOUNT = "system:serviceaccount:"
_OF_AN_ACCOUNT = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_DENIED = " cannot "
"""In the message of a 403 of the authorizer (``authorizer.forbidden``); admission words its own differently."""
_ESCALATES = " is attempting to grant RBAC permissions not currently held:\n"
"""In the message about a role or a binding that grants more than its writer has (``escalation_check``)."""
_MAX_SHOWN = 200


class MissingRight(AssertionError):
    """A program under test sent a request that its identity is not allowed to."""


class ProgramUnderTest:
    """One run of a program: an ``App``, or a coroutine function ``program(client, env)``.

    ``as_`` is the user it runs as, an administrator if empty. ``faults`` happen to its requests only.
    """

    def __init__(
        self,
        env: Env,
        server: ApiServer,
        program: "Program | App",
        *,
        as_: str = "",
        settings: "Settings | None" = None,
        faults: "Sequence[Rule]" = (),
    ) -> None:
        self.app = program if isinstance(program, operator_app.App) else None
        if self.app is None and settings is not None:
            raise TypeError("settings= are of an App: a program of your own takes its own")
        self.user = as_
        self._env = env
        self._server = server
        self._program: Program
        if isinstance(program, operator_app.App):
            app, chosen = program, settings or operator_app.Settings()
            self._program = lambda client, env: app.run(client, env, chosen)
        else:
            self._program = program
        self._faults = tuple(faults)
        self.webhooks: WebhookHandler | None = None
        """The webhooks that the API server calls; None if the app has none, or serves them itself."""
        if self.app is not None and self.app.has_webhooks and (settings is None or settings.webhooks is None):
            self.webhooks = self.app.webhook_handler(self.client())
        self._missing: dict[RequestInfo, int] = {}
        """Requests that were forbidden, without names, and how often they were."""
        self._escalations: dict[RequestInfo, str] = {}
        """Roles and bindings that were forbidden, without names, and what they would have granted."""

    def run(self) -> Coroutine[Any, Any, object]:
        """The program, until it is cancelled. Raises ``InvalidType`` if it is no async function."""
        running = self._program(self.client(), self._env)
        if not inspect.iscoroutine(running):
            name = arguments.shown(self._program)
            raise mistakes.InvalidType(f"{name!r} is no async function: declare it async def {name}(client, env)")
        return running

    def client(self) -> Client:
        """A client with the program's identity."""
        user, groups = (self.user, groups_of(self.user)) if self.user else ADMIN
        wrap = self._wrap if self.user or self._faults else as_it_is
        return LocalClients(self._env, self._server.transport, wrap).client("program", user, groups)

    def _wrap(self, _program: str, transport: wire.Transport) -> wire.Transport:
        failing = interceptor.Interceptor(transport, self._env, observer=self._observe)
        for rule in self._faults:
            failing.add(rule)
        return failing

    def _observe(self, observed: "interceptor.Observation") -> None:
        match observed:
            case interceptor.Answered(call=call, response=response, injected=False) if response.status == 403:
                message = msgspec.json.decode(response.body, type=_Status).message
                if _ESCALATES in message:
                    self._escalations[_unnamed(call)] = message.partition(_ESCALATES)[2]
                elif _DENIED in message:
                    self._forbidden(call)
            case interceptor.Opened(call=call, status=403):
                self._forbidden(call)

    def _forbidden(self, call: RequestInfo) -> None:
        call = _unnamed(call)
        self._missing[call] = self._missing.get(call, 0) + 1

    # Rights

    def account_objects(self) -> list[dict[str, Any]]:
        """The service account of ``as_``, with the roles that ``pilothouse generate manifests`` has for the app."""
        if self.app is None or not self.user.startswith(_ACCOUNT):
            return []
        namespace, name = _account(self.user)
        objects = operator_manifests.manifests(self.app, namespace=namespace)
        account = [obj for obj in objects if obj["kind"] in _OF_AN_ACCOUNT]
        for obj in account:
            if obj["kind"] == "ServiceAccount":
                obj["metadata"]["name"] = name
            for subject in obj.get("subjects", ()):
                subject["name"] = name
        return account

    @property
    def missing_rights(self) -> list[str]:
        """Each missing permission in one line: verb, resource, and the declaration that would grant it."""
        return [
            *(self._missing_right(call, times) for call, times in self._missing.items()),
            *(self._escalation(call, rules) for call, rules in self._escalations.items()),
        ]

    def _escalation(self, call: RequestInfo, rules: str) -> str:
        way = "escalate on it" if call.resource in ("roles", "clusterroles") else "bind on its role"
        scope = f" in namespace {call.namespace}" if call.namespace else ""
        rules_text = rules.replace("\n", " ")[:_MAX_SHOWN]
        return (
            f"{self.user} may not {call.verb} {call.resource}{scope} that grant what it has not: {rules_text}; "
            f"add that, or the verb {way}, to rights="
        )

    def _missing_right(self, call: RequestInfo, times: int) -> str:
        resource = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
        resource_text = f"{resource}.{call.group}" if call.group and not call.subresource else resource or call.path
        scope = f" in namespace {call.namespace}" if call.namespace else ""
        often = "once" if times == 1 else f"{times} times"
        line = f"{self.user} may not {call.verb} {resource_text}{scope} (tried {often})"
        if self.app is None:
            return line
        return (
            f"{line}; {operator_rights.missing_right(self.app.grants(), call.verb, call.group, resource or call.path)}"
        )

    def check_rights(self) -> None:
        """Raises ``MissingRight`` if a right was missing."""
        if lines := self.missing_rights:
            raise MissingRight("\n".join(lines))

    def explain(self, api_version: str, kind: str, key: str, observed: dict[str, Any] | None = None) -> list[str]:
        """What prevents the program from reconciling an object, as lines; ``observed`` is the object."""
        if self.app is None:
            return self.missing_rights
        misfit = self.app.misfit(observed) if observed is not None else ""
        return [*self.missing_rights, *filter(None, [misfit]), *self.app.explain(api_version, kind, key)]

    def is_failing(self, api_version: str, kind: str, key: str) -> bool:
        """Whether the program is an app whose last sync of an object has failed."""
        return self.app is not None and self.app.is_failing(api_version, kind, key)


class _Status(msgspec.Struct):
    message: str = ""


def check_arguments(program: object, as_: object, settings: object, faults: object) -> None:
    """Raises ``InvalidType`` for arguments of ``running`` that can't be used."""
    if isinstance(program, type) or inspect.iscoroutine(program):
        call = "an instance" if isinstance(program, type) else "the function itself, without calling it"
        raise mistakes.InvalidType(f"running takes {call}, got {arguments.shown(program)}")
    if not isinstance(program, operator_app.App):
        if not callable(program):
            raise mistakes.InvalidType(
                f"running takes an App, or an async function of a client and an env, got {arguments.shown(program)}"
            )
        try:
            inspect.signature(program).bind(None, None)
        except TypeError as error:
            raise mistakes.InvalidType(
                f"{arguments.shown(program)!r} is called with (client, env): {error}; declare it async def "
                f"{arguments.shown(program)}(client, env)"
            ) from None
    if not isinstance(as_, str):
        raise mistakes.InvalidType(f"as_= is the name of a user, got {arguments.shown(as_)}")
    if settings is not None and not isinstance(settings, operator_app.Settings):
        raise mistakes.InvalidType(f"settings= are Settings of pilothouse.operator, got {arguments.shown(settings)}")
    if isinstance(faults, str | interceptor.Rule) or not isinstance(faults, Sequence):
        raise mistakes.InvalidType(
            f"faults= is a list of rules of pilothouse.client.interceptor, got {arguments.shown(faults)}"
        )
    for fault in faults:
        if not isinstance(fault, interceptor.Rule):
            raise mistakes.InvalidType(
                f"faults= are rules of pilothouse.client.interceptor, one is {arguments.shown(fault)}"
            )


def groups_of(user: str) -> tuple[str, ...]:
    """The groups of a service account; none for other users."""
    if not user.startswith(_ACCOUNT):
        return ()
    namespace, _name = _account(user)
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def _account(user: str) -> tuple[str, str]:
    namespace, colon, name = user.removeprefix(_ACCOUNT).partition(":")
    if not namespace or not colon or not name:
        raise ValueError(f"the user of a service account is {_ACCOUNT}NAMESPACE:NAME, got {user!r}")
    return namespace, name


def _unnamed(call: RequestInfo) -> RequestInfo:
    return msgspec.structs.replace(call, name="", path="" if call.resource else call.path)
