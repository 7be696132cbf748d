"""How soon a cache is as its server is again, after faults, outages and stalled connections."""
