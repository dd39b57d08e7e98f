"""Custom resources: what a CustomResourceDefinition says, and how it is served.

``schema`` prunes, defaults and validates by a structural schema; ``serving`` makes rows of the resource table out of a
definition; ``controller`` gives definitions their conditions and removes what is left of deleted ones. Validation
rules in CEL (x-kubernetes-validations) and conversion webhooks are not evaluated.
"""
