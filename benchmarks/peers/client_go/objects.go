package main

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const nodeIndex = "node"

// nodesOf is the index function of spec.nodeName; what has no such field is under no node.
func nodesOf(object any) ([]string, error) {
	switch typed := object.(type) {
	case *corev1.Pod:
		return []string{typed.Spec.NodeName}, nil
	case *unstructured.Unstructured:
		node, _, err := unstructured.NestedString(typed.Object, "spec", "nodeName")
		return []string{node}, err
	}
	return nil, nil
}

// phaseOf reads status.phase; what has no such field has none.
func phaseOf(object any) string {
	switch typed := object.(type) {
	case *corev1.Pod:
		return string(typed.Status.Phase)
	case *unstructured.Unstructured:
		phase, _, _ := unstructured.NestedString(typed.Object, "status", "phase")
		return phase
	}
	return ""
}

// sizeOf looks into the decoded object, past its metadata.
func sizeOf(object any) int {
	switch typed := object.(type) {
	case *corev1.Pod:
		return len(typed.Spec.Containers) + len(typed.Status.ContainerStatuses)
	case *corev1.ConfigMap:
		return len(typed.Data)
	case *coordinationv1.Lease:
		return len(typed.Spec.String())
	case *unstructured.Unstructured:
		return len(typed.Object)
	}
	return 0
}
