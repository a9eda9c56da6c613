// etcd, which tests build from source. Not part of what ships.
module latchkey.invalid/etcd

go 1.24.0

require go.etcd.io/etcd/server/v3 v3.6.5
