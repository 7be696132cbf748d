"""The certificates of webhooks: from a folder, or self-made in a Secret that replicas share.

The server shows one in a TLS context that stays the same while certificates change; the leader
writes the authorities to where the API server reads them. The extra `pyinformer[webhooks]` is
needed.
"""

from pyinformer.admission.certificates._ca_bundles import CABundles
from pyinformer.admission.certificates._client_configs import Target
from pyinformer.admission.certificates._folder_certificate import FolderCertificate
from pyinformer.admission.certificates._rights import bundle_accesses, secret_accesses
from pyinformer.admission.certificates._rotation import Material, renewed
from pyinformer.admission.certificates._self_signed_certificate import SelfSignedCertificate
from pyinformer.admission.certificates._serving_certificate import ServingCertificate

__all__ = [
    "CABundles",
    "FolderCertificate",
    "Material",
    "SelfSignedCertificate",
    "ServingCertificate",
    "Target",
    "bundle_accesses",
    "renewed",
    "secret_accesses",
]
