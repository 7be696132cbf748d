"""The protocol of a metrics system, and a default that drops all figures.

Names and labels follow those of client-go; an adapter turns them into series of Prometheus or of
another system. Nothing is global: the program passes its metrics to each informer.
"""

from pyinformer.metrics._protocol import NO_METRICS, Metrics

__all__ = ["NO_METRICS", "Metrics"]
