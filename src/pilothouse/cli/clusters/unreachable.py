"""A command for a cluster in the background that does not run: an error immediately, no wait for its API server."""

import contextlib
from pathlib import Path

from pilothouse.cli.clusters.cluster import Clusters
from pilothouse.cli.clusters.process import is_free
from pilothouse.cli.program import UserError


def check_kubeconfig(path: str) -> None:
    """Raises a ``UserError`` if this is the kubeconfig of a stopped cluster, which removes it."""
    if path:
        for cluster in Clusters().readable():
            if cluster.kubeconfig == Path(path).absolute():
                cluster.check_running()


def check_address(host: str, port: int) -> None:
    """Raises a ``UserError`` if a cluster that does not run listened there last, and no other program does now."""
    if host == "127.0.0.1":
        for cluster in Clusters().readable():
            if cluster.record.port == port and not cluster.is_running and is_free(port):
                cluster.check_running()


def with_other_program(error: str, host: str, port: int) -> str:
    """The error of a server that does not respond as an API server, or not as the expected one, with the cluster that
    has this port and does not run, if there is one."""
    if host == "127.0.0.1":
        with contextlib.suppress(UserError):  # the state directory is unknown
            for cluster in Clusters().readable():
                if cluster.record.port == port and not cluster.is_running and not is_free(port):
                    stopped = f'cluster "{cluster.name}", whose port it is, does not run; {cluster.way_out}'
                    return f"{error}{'' if error.endswith('?') else '.'} Another program listens there: {stopped}"
    return error
