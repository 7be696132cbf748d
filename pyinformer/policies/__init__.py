"""Admission policies from code: rules and changes in CEL, which the server evaluates by itself.

For one's own kinds a rule belongs into the definition, `operator.crd.Rule`. A policy is for other
kinds, for deletions, for users and namespaces, and for warnings. Neither needs a webhook.
"""

from pyinformer.policies._compile import compile_policies
from pyinformer.policies._mutations import Mutation, PatchType
from pyinformer.policies._policy import Action, MutatingPolicy, Operation, Params, Policy
from pyinformer.policies._rules import Rule, RuleReason
from pyinformer.policies._yaml import checked_policies as checked_policies
from pyinformer.policies._yaml import policies_yaml

__all__ = [
    "Action",
    "MutatingPolicy",
    "Mutation",
    "Operation",
    "Params",
    "PatchType",
    "Policy",
    "Rule",
    "RuleReason",
    "compile_policies",
    "policies_yaml",
]
