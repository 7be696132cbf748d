"""Leader election: of several replicas one leads, and a deposed one writes nothing."""

from pyinformer.leaderelection._admission_policy import LeasePolicy as LeasePolicy
from pyinformer.leaderelection._admission_policy import admission_policy_yaml
from pyinformer.leaderelection._cut_offs import CutOffs as CutOffs
from pyinformer.leaderelection._election import Election as Election
from pyinformer.leaderelection._election import Finished as Finished
from pyinformer.leaderelection._election import Read as Read
from pyinformer.leaderelection._election import Wait as Wait
from pyinformer.leaderelection._election import Write as Write
from pyinformer.leaderelection._elector import Lead, LeaderElectionStatus, LeaderElector
from pyinformer.leaderelection._elector import system_clocks as system_clocks
from pyinformer.leaderelection._lease import TABLE_HOLDER as TABLE_HOLDER
from pyinformer.leaderelection._lease import LeaseRecord as LeaseRecord
from pyinformer.leaderelection._lease import WrittenVersions
from pyinformer.leaderelection._lease import later_written as later_written
from pyinformer.leaderelection._lease import new_lease as new_lease
from pyinformer.leaderelection._lease import read_lease as read_lease
from pyinformer.leaderelection._lease import released as released
from pyinformer.leaderelection._lease import with_labels as with_labels
from pyinformer.leaderelection._lease_requests import LeaseRequests as LeaseRequests
from pyinformer.leaderelection._lease_watch import LeaseFollower as LeaseFollower
from pyinformer.leaderelection._lease_watch import LeaseGroup as LeaseGroup
from pyinformer.leaderelection._options import UUID as UUID
from pyinformer.leaderelection._options import LeaderElection, LeaderElectionOptions
from pyinformer.leaderelection._options import check_identity as check_identity
from pyinformer.leaderelection._options import check_lease_name as check_lease_name
from pyinformer.leaderelection._options import unique_identity as unique_identity
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
