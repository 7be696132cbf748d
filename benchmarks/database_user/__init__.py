"""One operator in four frameworks, and what each does under faults on a real kube-apiserver."""
