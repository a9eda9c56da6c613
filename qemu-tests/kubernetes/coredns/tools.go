//go:build tools

// Package coredns pins CoreDNS, which tests build; go.sum holds the checksums.
package coredns

import (
	_ "github.com/coredns/coredns"
)
