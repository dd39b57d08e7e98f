"""Publishes the CA of the API server in every namespace as the ConfigMap ``kube-root-ca.crt``, which pods mount
with their token.

Behaviour: every active namespace has the ConfigMap, with the key ``ca.crt`` and no others; it is corrected when the
namespace is added or changed, and when the ConfigMap is changed or deleted. Its metadata is not changed.

Not guaranteed: that the bundle is good for anything but the API server's internal addresses, and that a change of the
file of ``--root-ca-file`` is noticed before a restart.

docs/controllers/root_ca_certificate_publisher.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import CONFIG_MAPS, NAMESPACES, ROOT_CA_CONFIG_MAP
from pilothouse.controllers.shared.root_authority import ROOT_CA_FLAG
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch


class RootCaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Published is ``root_ca_file``, or without one ``authority``, the CA of the program's own connection (PEM)."""

    root_ca_file: str = ""
    authority: str = ""


DESCRIPTOR = Descriptor(
    name="root-ca-certificate-publisher-controller",
    aliases=("root-ca-cert-publisher",),
    client_name="root-ca-cert-publisher",
    options=RootCaOptions,
    flags=(FlagSpec(field="root_ca_file", group="serviceaccount-controller", flag=ROOT_CA_FLAG),),
    watches=(
        Watch(kind=CONFIG_MAPS, field_selector=f"metadata.name={ROOT_CA_CONFIG_MAP}", keep_raw=True),
        # As upstream not awaited: the event of each namespace enqueues its key.
        Watch(kind=NAMESPACES, awaited=False),
    ),
    package=__name__,
)
