"""How a peer is run and measured: processes, environments, the stopwatch."""
