"""Rejects requests from other sites and DNS rebinding.

Browsers send the origin of a request (``Origin``, and ``Sec-Fetch-Site`` on secure connections). Other programs do not,
and need a session anyway.
"""

from collections.abc import Collection, Mapping

from pilothouse.serving.hosts import is_own_host


def check_origin(headers: Mapping[str, str], names: Collection[str], *, scheme: str, opens_page: bool) -> str:
    """The reason why a request is rejected; empty if it is allowed. ``opens_page``: the request is for a file of the
    page, which links may open; data are only for the page itself."""
    host = headers.get("host", "")
    if not host or not is_own_host(host, names):
        return f"the host {host!r} is not this server; use the address that pilothouse up has printed"
    origin = headers.get("origin")
    if origin is not None and origin != f"{scheme}://{host}":
        return "requests of other sites are not answered"
    site = headers.get("sec-fetch-site", "none")
    if opens_page:
        # A link may open the page, but no other page may embed it.
        if site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate":
            return "files of this page are not served to other sites"
        if headers.get("sec-fetch-dest", "document") in ("iframe", "frame", "embed", "object"):
            return "this page is not shown in frames"
    elif site not in ("same-origin", "none"):
        return "requests of other sites are not answered"
    return ""
