"""An operator as a program of a simulation: with its definitions, and its webhooks called without a port."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import urlsplit

from pilothouse.client import Client
from pilothouse.env import Env
from pilothouse.operator import App, Settings
from pilothouse.operator.client_config import ClientConfig
from pilothouse.sim.process import Program as SimulatedProgram
from pilothouse.sim.webhooks import ProgramWebhooks
from pilothouse.testing.asynchronous import Object
from pilothouse.testing.running import Program
from pilothouse.testing.webhooks import client_config


def simulated_program(
    app: App | Program,
    settings: Settings = Settings(),  # noqa: B008  # immutable
    others: Sequence[Object] = (),
    on_start: Callable[[App], None] = lambda _app: None,
) -> SimulatedProgram:
    """The program, with its definitions and ``others`` that are not among them, and its webhooks. ``on_start`` is
    called with the app of each process. Raises ``ValueError``."""
    for definition in others:
        if definition["spec"].get("conversion", {}).get("strategy") == "Webhook":
            raise ValueError(
                f"{definition['metadata']['name']} in crds= is converted by a webhook, which explore does not serve: "
                "declare it as a CustomResource of the app, with its versions"
            )
    if not isinstance(app, App):
        return SimulatedProgram(getattr(app, "__name__", "program"), app, tuple(others))
    if settings.webhooks is not None:
        raise ValueError("explore calls the app's webhooks without a port: leave webhooks= out of the settings")
    operator, config = app, client_config(app.name)

    def start(client: Client, env: Env) -> Coroutine[Any, Any, object]:
        process = operator.restarted()
        on_start(process)
        return process.run(client, env, settings)

    own = operator.definitions(config)
    names = {definition["metadata"]["name"] for definition in own}
    further = (definition for definition in others if definition["metadata"]["name"] not in names)
    return SimulatedProgram(operator.name, start, (*own, *further), _webhooks_of(operator, config))


def _webhooks_of(app: App, config: ClientConfig) -> ProgramWebhooks | None:
    if not app.has_webhooks:
        return None
    configurations = app.webhook_configurations(config)
    webhooks = [webhook for configuration in configurations for webhook in configuration["webhooks"]]
    return ProgramWebhooks(
        host=urlsplit(config.url).netloc,
        handler=lambda client: app.webhook_handler(client).respond,
        configurations=tuple(configurations),
        ignorable=frozenset(
            urlsplit(webhook["clientConfig"]["url"]).path
            for webhook in webhooks
            if webhook["failurePolicy"] == "Ignore"
        ),
    )
