"""Liveness and readiness of a program, and the HTTP server that answers probes."""

from pyinformer.operator import HasStatus, Health, HealthOptions, HealthServer, HealthVerdict

__all__ = [
    "HasStatus",
    "Health",
    "HealthOptions",
    "HealthServer",
    "HealthVerdict",
]
