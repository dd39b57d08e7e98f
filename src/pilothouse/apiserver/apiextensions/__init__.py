"""Custom resources: validation of their definitions, and how they are served.

``schema`` prunes, defaults and validates by a structural schema; ``serving`` makes rows of the resource table out of a
definition; ``controller`` gives definitions their conditions and removes what is left of deleted ones; ``structural``
validates the schemas of definitions, and ``rules`` their validation rules in CEL; ``conversion`` converts objects
between the versions of a definition by its webhook.
"""
