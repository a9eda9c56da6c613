//! Machines: power-on to ticket, disks, images, clusters. Each module runs as a process of its own (`./dev test`).
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod addons;
mod authenticated_disk;
mod certificates;
mod clouds;
mod control_planes;
mod debian;
mod emergency;
mod encrypted_guests;
mod fetched;
mod hostile_disks;
mod image_upgrade;
mod kubernetes;
mod life;
mod measured_boot;
mod measured_image;
mod predicted;
mod prediction;
mod release;
mod secrets;
mod services_inside;
mod tampered_image;
mod three_control_planes;
mod upgrade_kubernetes;
