"""Conversion of custom resources between the versions of their definition, as apiextensions-apiserver's
``pkg/apiserver/conversion`` (v0.36).

``reviews`` encodes ConversionReviews and validates the responses; ``webhook_converter`` calls the webhook;
``converter`` converts stored objects to the requested version and written objects to the storage version; ``cache``
keeps recent conversions.
"""
