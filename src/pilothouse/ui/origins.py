"""Whether a request comes from the page itself: not from another site's, and not through a name made to resolve here.

Browsers say where a request comes from (``Origin``, and ``Sec-Fetch-Site`` on secure connections). Programs say nothing
of the kind, and need a session all the same.
"""

from collections.abc import Collection, Mapping

from pilothouse.serving.hosts import is_own_host


def check_origin(headers: Mapping[str, str], names: Collection[str], *, scheme: str, opens_page: bool) -> str:
    """Why the request is rejected; empty if it is not. ``opens_page``: it is for a file of the page, which a link in
    another program may open; data are for the page alone."""
    host = headers.get("host", "")
    if not host or not is_own_host(host, names):
        return f"the host {host!r} is not this server; use the address that pilothouse up has printed"
    origin = headers.get("origin")
    if origin is not None and origin != f"{scheme}://{host}":
        return "requests of other sites are not answered"
    site = headers.get("sec-fetch-site", "none")
    if opens_page:
        # A link may lead to the page. As a part of another page it is not shown.
        if site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate":
            return "files of this page are not served to other sites"
        if headers.get("sec-fetch-dest", "document") in ("iframe", "frame", "embed", "object"):
            return "this page is not shown in frames"
    elif site not in ("same-origin", "none"):
        return "requests of other sites are not answered"
    return ""
