//! Machines that seem to be SEV-SNP guests. AMD and its chips are fakes (`FakeAmd`, which tests bring along, so that nothing here is
//! built with it); kernel, ioctls, agent, TPM, services and command line are real.
//!
//! The image has the fake's device driver in front of its agent (`guests/src/bin/fake_sev_guest.rs`), which is measured with it. Which
//! chip a machine has comes from the host, unmeasured as a real chip is: so one image is every guest, and no guest.

use std::io;
use std::path::{Path, PathBuf};

use latchkey_attestation::ReferenceValues;
use serde_json::{Value, json};

use crate::build;
use crate::error::{HarnessError, io_error};
use crate::fleet::{Fleet, Plan};
use crate::machine::Machine;
use crate::run::Run;

/// The launch digest of `FakeAmd`'s guests.
const LAUNCH: &str = "d1";

/// The agent that ships, behind a program that fakes `/dev/sev-guest`.
pub(crate) fn agent_behind_a_fake_device(run: &Run) -> Result<PathBuf, HarnessError> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(io_error("read", path));
    let (fake, agent) = (read(&build::guest("fake_sev_guest")?)?, read(&build::agent()?)?);
    let length = (agent.len() as u64).to_le_bytes();
    run.write("agent-behind-a-fake", [&fake[..], &agent, &length].concat())
}

impl Fleet {
    /// A site whose policy lets in nothing but guests of the AMD that publishes this.
    pub fn of_encrypted_guests(
        name: &str,
        publish: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, HarnessError> {
        let plan = Plan { encrypted_guests: true, then: "echo OS up", ..Plan::default() };
        let mut fleet = Self::planned(name, plan)?;
        let collateral = fleet.run.subdirectory("amd")?;
        publish(&collateral).map_err(io_error("write", &collateral))?;
        fleet.collateral = Some(collateral);
        fleet.release(&launched(&fleet.image().values)?)?;
        fleet.demand_reports()?;
        Ok(fleet)
    }

    /// The site's policy, with what the guests are.
    fn demand_reports(&self) -> Result<(), HarnessError> {
        let path = self.run.file("policy.json");
        let policy = std::fs::read(&path).map_err(io_error("read", &path))?;
        let unusable = |error: serde_json::Error| HarnessError::Unusable(format!("{}: {error}", path.display()));
        let mut policy: Value = serde_json::from_slice(&policy).map_err(unusable)?;
        policy["snp"] = json!({
            "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
            "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0", "allow": ["smt"],
        });
        std::fs::write(&path, policy.to_string()).map_err(io_error("write", &path))
    }
}

impl Machine {
    /// Runs on this chip: what `Guest::for_another_process` says of it.
    pub fn chip(self, chip: &[u8]) -> Result<Self, HarnessError> {
        let file = self.run.write(&format!("{}-chip", self.name), chip)?;
        Ok(self.arguments(&["-fw_cfg", &format!("name=opt/latchkey-test/chip,file={}", file.display())]))
    }
}

/// A manifest whose machines are launched as `FakeAmd`'s guests are.
fn launched(values: &ReferenceValues) -> Result<ReferenceValues, HarnessError> {
    let unusable = |what: String| HarnessError::Unusable(format!("the image's manifest: {what}"));
    let mut values: Value = serde_json::from_str(&values.to_json()).map_err(|error| unusable(error.to_string()))?;
    let machines = values["images"][0]["machines"].as_array_mut().into_iter().flatten();
    for machine in machines {
        machine["snp_launch"] = json!([{
            "digest": LAUNCH.repeat(48), "firmware_sha256": "09".repeat(32), "kernel_hashes": true, "vcpus": 1,
            "vcpu_type": "EPYC-v4", "guest_features": 1,
        }]);
    }
    ReferenceValues::from_json(values.to_string().as_bytes()).map_err(|refusal| unusable(refusal.to_string()))
}
