"""Custom resources: validation and serving of CustomResourceDefinitions.

``schema`` prunes, defaults and validates by a structural schema; ``serving`` creates the rows of the resource table for
a definition; ``controller`` sets the conditions of definitions and deletes the objects of deleted ones; ``structural``
validates the schemas of definitions, and ``rules`` evaluates their CEL validation rules; ``conversion`` converts
objects between the versions of a definition by webhook.
"""
