"""Measure pyinformer and its peers: same objects, same server, same machine, one run.

Each peer runs in a process of its own against one replay server in another; only ratios
formed inside a round are worth quoting. `benchmarks/README.md` says what may be compared.
"""
