"""A long run under load and faults: what a program holds, hour after hour."""
