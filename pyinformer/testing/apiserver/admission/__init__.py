"""What reviews the writes to the embedded server: rules of definitions, policies and webhooks."""

from pyinformer.testing.apiserver.admission._definition_rules import rule_causes
from pyinformer.testing.apiserver.admission._reviewer import Admission, HookSource, WriteReview

__all__ = [
    "Admission",
    "HookSource",
    "WriteReview",
    "rule_causes",
]
