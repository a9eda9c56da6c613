//go:build tools

// Package flannel pins flannel's daemon, which tests build; go.sum holds the checksums.
package flannel

import (
	_ "github.com/flannel-io/flannel"
)
