"""Invariants of the API server's ClusterTrustBundle: the publisher only writes its own content, deletes older bundles
only after it has observed the current one, and at the end that is the only one.

Checked against the committed objects and the observations of each process.
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pilothouse.api.certificates import ClusterTrustBundle
from pilothouse.client.interceptor import Observation
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import DESCRIPTOR
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.invariants.cached import InformerCache
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

_PREFIX = "certificates.k8s.io/clustertrustbundles/"
_SIGNER = "kubernetes.io/kube-apiserver-serving"


def name_of(content: str) -> str:
    """The name of the bundle with this content."""
    return f"kubernetes.io:kube-apiserver-serving:{hashlib.sha256(content.encode()).hexdigest()[:24]}"


class _ProcessState:
    """The contents that one process may publish and that it has observed."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.names: set[str] = set()  # never iterated
        self.cache = InformerCache("clustertrustbundles", ClusterTrustBundle, self._bundle_changed)

    def _bundle_changed(self, _old: ClusterTrustBundle | None, new: ClusterTrustBundle | None) -> None:
        if new is not None:
            self.add(new)

    def add(self, bundle: ClusterTrustBundle) -> None:
        """Record an observed bundle."""
        if bundle.metadata.name == name_of(bundle.spec.trust_bundle):
            self.names.add(bundle.spec.trust_bundle)


class TrustBundles(Invariant):
    """All bundles of a cluster. ``contents`` are the manager's contents, the latest one last; it may grow. A process
    publishes the one that was the latest when it started, or a later one.

    ``written`` and ``removed`` count writes of the publisher (for tests).
    """

    def __init__(self, contents: Sequence[str]) -> None:
        self._contents = contents
        self._process_states: dict[str, _ProcessState] = {}
        self._bundles = Objects(_PREFIX, ClusterTrustBundle)
        self.written = 0
        self.removed = 0

    def started(self, process: "Process") -> None:
        self._process_states[process.name] = _ProcessState(len(self._contents) - 1)

    def observed(self, process: "Process", observation: Observation) -> None:
        self._process_states[process.name].cache.observe(observation)

    def committed(self, change: Change, origin: Origin | None) -> None:
        is_own = origin is not None and origin.controller == DESCRIPTOR.client_name
        update = self._bundles.follow(change)
        if not is_own:
            return
        if update is None:
            raise Violation(f"the publisher has written {change.key}")
        _name, old, new = update
        assert origin is not None, "as just found"
        state = self._process_states[origin.program]
        if new is not None:
            self._check_write(state, old, new)
        elif old is not None:
            self._check_removal(state, old)

    def _check_write(self, state: _ProcessState, old: ClusterTrustBundle | None, new: ClusterTrustBundle) -> None:
        self.written += 1
        name, content = new.metadata.name, new.spec.trust_bundle
        if new.spec.signer_name != _SIGNER or (old is not None and old.spec.signer_name != _SIGNER):
            raise Violation(f"bundle {name} of {new.spec.signer_name} is of another signer")
        if content not in self._contents[state.first :] or name != name_of(content):
            raise Violation(f"bundle {name} has {content!r}, which no publisher has written")
        if old is not None and _user_content(old) != _user_content(new):
            raise Violation(f"bundle {name} lost metadata that users set")
        state.add(new)

    def _check_removal(self, state: _ProcessState, old: ClusterTrustBundle) -> None:
        self.removed += 1
        name = old.metadata.name
        if old.spec.signer_name != _SIGNER:
            raise Violation(f"bundle {name} of {old.spec.signer_name} was removed, and is of another signer")
        desired = [content for content in self._contents[state.first :] if content in state.names]
        if not any(name_of(content) != name for content in desired):
            raise Violation(f"bundle {name} was removed before the current one existed")

    def check_final_state(self) -> None:
        """At the end the current bundle exists, and no other."""
        names = sorted(name for name, bundle in self._bundles.items() if bundle.spec.signer_name == _SIGNER)
        content = self._contents[-1]
        if names != [name_of(content)] or self._bundles[names[0]].spec.trust_bundle != content:
            raise Violation(f"bundles {names} exist, expected {name_of(content)}")


def _user_content(bundle: ClusterTrustBundle) -> tuple[object, object]:
    return bundle.metadata.labels, bundle.metadata.annotations
