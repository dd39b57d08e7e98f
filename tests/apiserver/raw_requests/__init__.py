"""Malformed requests: valid ones, mutated in their structure and in their bytes.

``seeds`` has the valid ones, ``mutations`` what is done to values and bytes, ``cases`` makes one case of a number, and
``connection`` sends it and reads what comes back. ``tests/apiserver/test_raw_requests.py`` runs them.
"""
