"""The programs that are compared, each run in a process of its own."""
