"""Checks of objects by kind.

A check takes the ``View`` of an object and returns a ``Finding`` (its state and the steps that explain it), or None if
it does not apply. ``CHECKS`` lists them by resource; the first finding is used.
"""
