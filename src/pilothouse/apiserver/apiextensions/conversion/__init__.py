"""Conversion of custom resources between the versions of their definition, as apiextensions-apiserver's
``pkg/apiserver/conversion`` (v0.36).

``reviews`` writes ConversionReviews and validates their answers; ``webhook_converter`` calls the webhook; ``converter``
takes stored objects to the version that was asked for and written ones to the storage version; ``cache`` keeps what
was converted last.
"""
