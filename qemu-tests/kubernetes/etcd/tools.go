//go:build tools

// Package etcd pins etcd and its client, which tests build; go.sum holds the checksums.
package etcd

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
