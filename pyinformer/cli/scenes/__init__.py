"""`pyinformer scenes`: the founding failures, each played with a plain informer and with ours.

What enters are names of scenes and the choice of the server; what leaves is a report with a verdict
for each, and an exit status. Nothing in a report is written down beforehand: every fact is measured
on a running server, for the plain program as for ours.
"""

from __future__ import annotations

__all__: list[str] = []
