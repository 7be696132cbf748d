"""What one tenant's objects make an informer keep: `python -m benchmarks.tenants`."""
