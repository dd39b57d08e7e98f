"""Benchmarks. Each module runs by itself (``python -m bench.client``) and gives its figures as a dictionary."""
