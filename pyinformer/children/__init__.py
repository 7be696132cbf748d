"""The objects that an object owns: a set that is applied, awaited and pruned as one."""

from pyinformer.children._apply_set import set_name as set_name
from pyinformer.children._child_sets import ChildSets as ChildSets
from pyinformer.children._children import Children
from pyinformer.children._status import Condition, Status

__all__ = ["Children", "Condition", "Status"]
