"""Whether an object has become what its spec asks for, read from the object alone.

`of` knows the rules of the built-in kinds, as kubectl and kstatus have them, and reads the
conditions of all others. It sends no request, and a body of any content has an answer.
"""

from pyinformer.readiness._compute import of
from pyinformer.readiness._result import Readiness, State

__all__ = ["Readiness", "State", "of"]
