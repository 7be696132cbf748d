"""Leader election: of several replicas one leads, and a deposed one writes nothing."""

from pyinformer.leaderelection._admission_policy import admission_policy_yaml
from pyinformer.leaderelection._elector import Lead, LeaderElectionStatus, LeaderElector
from pyinformer.leaderelection._lease import WrittenVersions
from pyinformer.leaderelection._options import LeaderElection, LeaderElectionOptions
from pyinformer.leaderelection._rbac import lease_accesses as lease_accesses
from pyinformer.leaderelection._term import Term

__all__ = [
    "Lead",
    "LeaderElection",
    "LeaderElectionOptions",
    "LeaderElectionStatus",
    "LeaderElector",
    "Term",
    "WrittenVersions",
    "admission_policy_yaml",
]
