"""Computation of the rate at which a cluster fills."""

import pytest
from bench.full_cluster import growth


def test_last_fifth_is_compared_with_the_first() -> None:
    assert growth([(0.0, 0.0, 0), (1.0, 1.0, 20), (2.0, 2.0, 80), (3.0, 5.0, 100)]) == pytest.approx(3)


def test_cluster_full_at_the_second_sample_has_no_growth() -> None:
    """As the smallest ones are."""
    assert growth([(0.0, 0.0, 0), (1.0, 1.0, 1000)]) is None
