"""Admission webhooks and conversion: an operator checks, completes and converts what is written.

Nothing of this folder is loaded unless a hook is declared or `Webhooks` is used.
"""

from pyinformer.admission._webhooks import Webhooks

__all__ = ["Webhooks"]
