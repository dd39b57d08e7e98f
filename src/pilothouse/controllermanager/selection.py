"""Which controllers run: ``--controllers`` with names, aliases, ``*`` and ``-name``; the first match wins.

Facts: kube-controller-manager v1.36 ``cmd/kube-controller-manager/app/controllermanager.go`` and
``staging/src/k8s.io/cloud-provider/app`` (``genericcontrollermanager.IsControllerEnabled``).
"""

from collections.abc import Iterable, Sequence

import msgspec

from pilothouse.controllermanager.compatibility import upstream_names
from pilothouse.env.lazy import lazy_imports
from pilothouse.runtime.descriptor import Descriptor

with lazy_imports():
    from pilothouse.machinery import flags


def unknown_names(words: Iterable[str], descriptors: Sequence[Descriptor]) -> list[str]:
    """The words of ``--controllers`` that are no controller of pilothouse or upstream."""
    return [name for name in _unknown(words, descriptors) if name not in upstream_names()]


def hint_of_controller(name: str, descriptors: Sequence[Descriptor]) -> str:
    """`` (did you mean deployment-controller?)`` for one of ``unknown_names``, or an empty text."""
    known = [name for descriptor in descriptors for name in (descriptor.name, *descriptor.aliases)]
    similar = flags.closest(name, known)
    return f" (did you mean {similar}?)" if similar else ""


def unimplemented_names(words: Iterable[str], descriptors: Sequence[Descriptor]) -> list[str]:
    """The controllers that ``--controllers`` selects by name and that only upstream has."""
    selected = [word for word in words if not word.startswith("-")]
    return [name for name in _unknown(selected, descriptors) if name in upstream_names()]


def _unknown(words: Iterable[str], descriptors: Sequence[Descriptor]) -> list[str]:
    names = {name for d in descriptors for name in (d.name, *d.aliases)}
    return [word.removeprefix("-") for word in words if word != "*" and word.removeprefix("-") not in names]


class Selection(msgspec.Struct, frozen=True):
    """The words of ``--controllers``."""

    words: tuple[str, ...]

    def enables(self, descriptor: Descriptor) -> bool:
        """Whether the controller is selected (``IsControllerEnabled``). The first word that is its name or alias, with
        or without ``-``, decides. Otherwise it is if ``*`` is among the words and the controller is on by default."""
        names = (descriptor.name, *descriptor.aliases)
        for word in self.words:
            if word in names:
                return True
            if word.startswith("-") and word[1:] in names:
                return False
        return "*" in self.words and descriptor.default_on
