//! One image in every cloud: who it asks for its metadata it knows from its SMBIOS, and what is said there makes it what it is.

use latchkey_qemu_tests::fleet::{Fleet, MEMBER, Plan, STEP, WAITS};
use latchkey_test_support::metadata::FakeServer;
use serde_json::json;

/// Cloud, what its machines' SMBIOS says, and what the cloud calls the instance.
const CLOUDS: [(&str, &str, &str); 5] = [
    ("aws", "type=1,manufacturer=Amazon EC2", "ip-10-0-2-15.eu-central-1.compute.internal"),
    ("gcp", "type=1,product=Google Compute Engine", "edge-7"),
    ("azure", "type=3,asset=7783-7084-3265-9085-8269-3286-77", "edge-7"),
    ("openstack", "type=1,manufacturer=OpenStack Foundation", "edge-7.novalocal"),
    ("hetzner", "type=1,manufacturer=Hetzner", "edge-7"),
];

#[test]
fn one_image_is_founded_in_every_cloud_under_the_name_that_it_has_there() {
    let plan = Plan { metadata: Some("auto"), then: "echo OS up", ..Plan::default() };
    let fleet = Fleet::planned("clouds", plan).unwrap();
    let document = json!({"version": 1, "init_secret_hash": fleet.init_hash}).to_string();
    for (cloud, smbios, name) in CLOUDS {
        let server = FakeServer::of(cloud, Some(&document));
        let node = fleet.machine(cloud).unwrap().in_cloud(smbios, server.address()).start().unwrap();
        node.expect(WAITS, STEP).unwrap();
        let founded = fleet.init_as(&node, cloud).unwrap().success("init").unwrap();
        assert_eq!(founded.json()["node"], name, "{cloud}");
        node.expect(MEMBER, STEP).unwrap();
        // The first stage does not end before that.
        assert_eq!(node.console().contains("Azure knows that this machine is up"), cloud == "azure");
    }
}
