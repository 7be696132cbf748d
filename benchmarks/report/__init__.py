"""From rounds to rows, tables, plots and records."""
