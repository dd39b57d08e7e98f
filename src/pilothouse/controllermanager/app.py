"""The manager as a process in front of an API server: connection, secure port, and the manager between them.

``cli`` calls ``run`` with the options that flags gave. The secure port is up before leadership is won and stays up on a
standby, as upstream's.
"""

from collections.abc import Sequence

from pilothouse.client.connect import find
from pilothouse.controllermanager.configz import page
from pilothouse.controllermanager.health import Health
from pilothouse.controllermanager.identities import RemoteClients
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.secure_port import secure_port
from pilothouse.env import Env
from pilothouse.runtime.client_metrics import RestClientMetrics
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.metrics import Registry


async def run(env: Env, options: Options, descriptors: Sequence[Descriptor]) -> None:
    """Manage until cancelled.

    Raises ``ConfigError``, ``ApiError``, ``OSError``, ``guards.CannotRun`` or ``runtime.LeadershipLost``; their texts
    are for people.
    """
    metrics = Registry()
    clients = RemoteClients(
        env,
        find(kubeconfig=options.kubeconfig, master=options.master),
        use_service_accounts=options.use_service_account_credentials,
        metrics=RestClientMetrics(metrics),
    )
    health, readiness = Health(), Health()
    manager = Manager(env, options, clients, descriptors, metrics=metrics, health=health, readiness=readiness)
    try:
        async with secure_port(
            env,
            options.serving,
            health=health,
            readiness=readiness,
            metrics=metrics,
            config=lambda: page(options),
        ):
            await manager.run()
    finally:
        await clients.close()
