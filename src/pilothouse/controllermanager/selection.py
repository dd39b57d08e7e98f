"""Which controllers run: ``--controllers`` with names, aliases, ``*`` and ``-name``; the first match wins.

Facts: kube-controller-manager v1.36 ``cmd/kube-controller-manager/app/controllermanager.go`` and
``staging/src/k8s.io/cloud-provider/app`` (``genericcontrollermanager.IsControllerEnabled``).
"""

from collections.abc import Iterable, Sequence

import msgspec

from pilothouse.controllermanager.compatibility import upstream_names
from pilothouse.runtime.descriptor import Descriptor


def unknown_names(words: Iterable[str], descriptors: Sequence[Descriptor]) -> list[str]:
    """The words of ``--controllers`` that name no controller, neither one of ours nor one of upstream's."""
    return [name for name in _strange(words, descriptors) if name not in upstream_names()]


def absent_names(words: Iterable[str], descriptors: Sequence[Descriptor]) -> list[str]:
    """The controllers that ``--controllers`` asks for by name and that only upstream has."""
    asked = [word for word in words if not word.startswith("-")]
    return [name for name in _strange(asked, descriptors) if name in upstream_names()]


def _strange(words: Iterable[str], descriptors: Sequence[Descriptor]) -> list[str]:
    known = {name for d in descriptors for name in (d.name, *d.aliases)}
    return [word.removeprefix("-") for word in words if word != "*" and word.removeprefix("-") not in known]


class Selection(msgspec.Struct, frozen=True):
    """The words of ``--controllers``."""

    words: tuple[str, ...]

    def enables(self, descriptor: Descriptor) -> bool:
        """Whether the controller is asked for.

        Words are read from the left; the first that is its name or alias, or ``-`` and that, decides. If none is, it
        runs when ``*`` is among the words and it is on by default.
        """
        names = (descriptor.name, *descriptor.aliases)
        for word in self.words:
            if word in names:
                return True
            if word.startswith("-") and word[1:] in names:
                return False
        return "*" in self.words and descriptor.default_on
