"""Leader election: of several replicas one leads, and a deposed one writes nothing."""

from pyinformer.leaderelection._admission_policy import admission_policy_yaml
from pyinformer.leaderelection._election import Election as Election
from pyinformer.leaderelection._election import Finished as Finished
from pyinformer.leaderelection._election import Wait as Wait
from pyinformer.leaderelection._elector import Lead, LeaderElectionStatus, LeaderElector
from pyinformer.leaderelection._lease import LeaseRecord as LeaseRecord
from pyinformer.leaderelection._lease import WrittenVersions
from pyinformer.leaderelection._lease import later_written as later_written
from pyinformer.leaderelection._lease import new_lease as new_lease
from pyinformer.leaderelection._lease import read_lease as read_lease
from pyinformer.leaderelection._lease import released as released
from pyinformer.leaderelection._lease import with_labels as with_labels
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
