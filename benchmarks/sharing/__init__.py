"""What it costs that replicas share keys, and how equal shares are; not a run of the suite."""
