"""The embedded Kubernetes API server.

Every package here is one part of a kube-apiserver, and imports only those above it: `resources`,
`requests`, `storage`, `access`, `patches` and `managed_fields`, `reads`, `writes`, `handler`,
`server`. `World` uses all but the last.
"""
