"""What happened, counted: the protocol that a metrics system implements, and a silent default.

Names and labels follow the field's conventions; an adapter turns them into Prometheus series or
whatever else is used. Nothing here is global: whoever builds an informer passes its metrics in.
"""

from pyinformer.metrics._protocol import NO_METRICS, Metrics

__all__ = ["NO_METRICS", "Metrics"]
