//go:build tools

// Package etcd pins etcd, which tests build; go.sum holds the checksums.
package etcd

import (
	_ "go.etcd.io/etcd/server/v3"
)
