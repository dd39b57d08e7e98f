"""Malformed requests: valid ones, mutated in their structure and in their bytes.

``seeds`` has the valid requests, ``mutations`` the changes of values and bytes, ``cases`` creates a case from a number,
and ``connection`` sends it and reads the response. ``tests/apiserver/test_raw_requests.py`` runs them.
"""
