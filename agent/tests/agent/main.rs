//! The agent as a program, and its cluster step.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod cluster_certificates;
mod cluster_components;
mod cluster_fake;
mod cluster_kubeadm;
mod cluster_real;
mod cluster_services;
mod cluster_upgrade;
mod program;
