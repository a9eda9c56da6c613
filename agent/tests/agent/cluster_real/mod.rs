//! What the cluster step writes, given to the real programs: kubeadm (`./dev e2e kubeadm`) and the API server (`./dev e2e api-server`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod api_server;
mod balancer;
mod etcd;
mod kubeadm;
