//go:build tools

// Package etcd pins etcd, its client and its tool for files, which tests build; go.sum holds the checksums.
package etcd

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
