"""CertificateSigningRequests: denied, failed, not approved, or not issued."""

from pilothouse.why.states.lifetime import created
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View, condition

_DECISIONS = {"Denied": "denied", "Failed": "failed", "Approved": "approved"}
_KUBERNETES = "kubernetes.io/"


async def request(view: View) -> Finding | None:
    """A request without a certificate: its decision and who made it, or whom it waits for."""
    signer = str(view.spec.get("signerName") or "")
    for type_, state in _DECISIONS.items():
        decision = view.condition(type_)
        if not decision or (type_ == "Approved" and view.status.get("certificate")):
            continue
        detail = ": ".join(str(decision[key]) for key in ("reason", "message") if decision.get(key))
        text = f"{'has' if type_ == 'Failed' else 'is'} {state}{f': {detail}' if detail else ''}"
        text = _not_issued(signer) if type_ == "Approved" else text
        return Finding(state if type_ != "Approved" else "not issued", (await _step(view, text, type_),))
    if view.status.get("certificate"):
        return None
    creation = await created(view)
    text = f"waits until somebody approves or denies it (signer {signer})"
    return Finding("pending", (view.step(text, root=STATE, because=[creation] if creation is not None else []),))


def _not_issued(signer: str) -> str:
    if signer.startswith(_KUBERNETES):
        return f"is approved, and certificatesigningrequest-signing-controller has not signed it (signer {signer})"
    return f"is approved, and waits for the signer {signer}, a program outside of Kubernetes"


async def _step(view: View, text: str, type_: str) -> Step:
    """With who approved or denied it; the creation otherwise."""
    for change in reversed(await view.own_changes()):
        is_approval = change.origin is not None and change.origin.subresource == "approval"
        if is_approval and condition(await view.evidence.after(change), type_):
            return view.step(text, because=[await view.chain.step(change, text=f"was {_DECISIONS[type_]}")])
    creation = await created(view)
    return view.step(text, root=STATE, because=[creation] if creation is not None else [])
