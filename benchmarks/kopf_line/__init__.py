"""What the line `pyinformer.kopf.install()` costs an operator, beside plain kopf."""
