"""Python clients on ``pilothouse up``: each runs its scenario (``tests/clients/python``) in a separate process."""

from pathlib import Path

import pytest
from tests.clients.python.ground import Ground


@pytest.mark.timeout(240)  # alone about ten seconds; several programs that share two cores with others take longer
@pytest.mark.parametrize("scenario", ["official", "asynchronous", "with_kr8s", "with_lightkube", "with_kopf"])
def test_python_client_scenario(scenario: str, tmp_path: Path) -> None:
    with Ground(tmp_path) as ground:
        ground.run(scenario)
        assert ground.gone_versions, "each goes through a restart"
