"""Signs the public ConfigMap ``kube-public/cluster-info`` with every bootstrap token. A machine that has only
such a token can then verify that it talks to the right API server (``kubeadm join``).

Behaviour: the ConfigMap has a signature ``jws-kubeconfig-ID`` for each valid token that may sign, and no others.
Nothing else in it is changed.

Not guaranteed: that a signature is removed in the second in which its token expires. It is removed when the token
cleaner deletes the token.

Off unless ``--controllers`` names it, as upstream. docs/controllers/bootstrap_signer.md has where it differs from
upstream.
"""

from pilothouse.api.core import CONFIG_MAPS, SECRETS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch
from pilothouse.semantics.bootstrap_tokens import NAMESPACE, SECRET_TYPE

PUBLIC, NAME = "kube-public", "cluster-info"
MAP_SELECTOR = f"metadata.name={NAME}"
SECRET_SELECTOR = f"type={SECRET_TYPE}"

DESCRIPTOR = Descriptor(
    name="bootstrap-signer-controller",
    aliases=("bootstrapsigner",),
    client_name="bootstrap-signer",
    default_on=False,
    watches=(
        Watch(kind=CONFIG_MAPS, namespace=PUBLIC, field_selector=MAP_SELECTOR, keep_raw=True),
        Watch(kind=SECRETS, namespace=NAMESPACE, field_selector=SECRET_SELECTOR),
    ),
    package=__name__,
)
