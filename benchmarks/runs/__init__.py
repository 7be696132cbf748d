"""What is measured: one module for each kind of work."""
