//go:build tools

// Package helm pins Helm, which tests build; go.sum holds the checksums.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
