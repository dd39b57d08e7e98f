"""``/version``."""

import msgspec

from pilothouse.api.wire import Response
from pilothouse.apiserver.serializers.json import JSON_HEADERS
from pilothouse.machinery.version import version_document


def version_response() -> Response:
    """The response to ``GET /version``."""
    return Response(200, JSON_HEADERS, msgspec.json.format(msgspec.json.encode(version_document()), indent=2))
