"""Benchmarks: ``python -m bench`` runs them. Each module can also be run alone (``python -m bench.client``)."""
