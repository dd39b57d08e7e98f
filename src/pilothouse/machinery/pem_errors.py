"""Errors about PEM files, without the links of the library that reads them."""

import re

_LINK = re.compile(r" See https://\S+ for more details\.")


def error_text(error: BaseException) -> str:
    """The text of an error of ``cryptography``: ``Unable to load PEM file. MalformedFraming``."""
    return _LINK.sub("", str(error))
