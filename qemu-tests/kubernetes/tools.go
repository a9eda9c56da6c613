//go:build tools

// Package kubernetes pins the Kubernetes programs that tests build; go.sum holds their checksums.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kubeadm"
)
