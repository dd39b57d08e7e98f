"""Python clients on ``pilothouse up``: each runs its scenario (``tests/clients/python``) in a separate process."""

from pathlib import Path

import pytest
from tests.clients.python.server import UpServer


@pytest.mark.timeout(240)  # alone about ten seconds; several programs that share two cores with others take longer
@pytest.mark.parametrize("scenario", ["official", "asynchronous", "with_kr8s", "with_lightkube", "with_kopf"])
def test_python_client_scenario(scenario: str, tmp_path: Path) -> None:
    with UpServer(tmp_path) as server:
        server.run(scenario)
        assert server.expired_versions, "each goes through a restart"
