//go:build tools

// Package sealedsecrets pins the controller of Sealed Secrets, which tests build; go.sum holds the checksums.
package sealedsecrets

import (
	_ "github.com/bitnami-labs/sealed-secrets/cmd/controller"
)
