"""``ValidSpecs``: pod specs that were valid and without warnings, for the next pods of the same template."""

from collections import OrderedDict

import msgspec

from pilothouse.apiserver.objects import Object

_encode = msgspec.json.Encoder().encode
MAX_BYTES = 16 * 1024
_MAX_SPECS = 256


class ValidSpecs:
    """The last specs, with the annotations of their pods: nothing else decides about a new pod apart from its
    ``ObjectMeta``, except for ephemeral volumes, whose claims have its name."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """Each operation is atomic: the worker uses it, too."""

    def contains(self, pod: Object) -> bool:
        """Whether such a pod was added."""
        return _key(pod) in self._known

    def add(self, pod: Object) -> None:
        """Add the spec of a valid pod without warnings."""
        key = _key(pod)
        if len(key) > MAX_BYTES or b'"ephemeral"' in key:
            return
        if len(self._known) >= _MAX_SPECS:
            self._known.popitem(last=False)
        self._known[key] = None


def _key(pod: Object) -> bytes:
    return _encode((pod["spec"], pod["metadata"].get("annotations")))
