"""Leader election on a real kube-apiserver, beside client-go: who wrote while which replica led."""
