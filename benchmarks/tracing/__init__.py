"""What traces cost a reconcile; not a run of the suite."""
