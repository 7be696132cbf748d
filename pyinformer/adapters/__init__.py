"""Metrics and tracing systems of other packages; each module needs the extra of its name."""
