//! Machines that seem to be SEV-SNP or TDX guests. AMD, Intel and their chips are fakes (`FakeAmd`, `FakeIntel`, which tests bring along,
//! so that nothing here is built with them); kernel, system calls, agent, TPM, services and command line are real.
//!
//! The image has a fake of the kernel's interfaces in front of its agent (`guests/src/bin/fake_processor`), which is measured with it.
//! Which chip a machine has comes from the host, unmeasured as a real chip is: so one image is every guest, and no guest.

use std::io;
use std::path::{Path, PathBuf};

use latchkey_attestation::ReferenceValues;
use serde_json::{Value, json};

use crate::build;
use crate::error::{HarnessError, io_error};
use crate::fleet::{Fleet, Plan};
use crate::machine::Machine;
use crate::run::Run;

/// The launch digest of `FakeAmd`'s guests, and `MRTD` of `FakeIntel`'s: each byte of it.
const LAUNCH: &str = "d1";

/// How a machine's kernel gives what its processor says.
#[derive(Debug, Clone, Copy)]
pub enum Interface {
    /// `/dev/sev-guest`.
    SevGuestDevice,
    /// configfs-tsm of a SEV-SNP guest.
    SevGuestTsm,
    /// configfs-tsm of a TDX guest.
    TdxGuestTsm,
}

/// The agent that ships, behind a program that fakes a processor.
pub(crate) fn agent_behind_a_fake_processor(run: &Run) -> Result<PathBuf, HarnessError> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(io_error("read", path));
    let (fake, agent) = (read(&build::guest("fake_processor")?)?, read(&build::agent()?)?);
    let length = (agent.len() as u64).to_le_bytes();
    run.write("agent-behind-a-fake", [&fake[..], &agent, &length].concat())
}

impl Fleet {
    /// A site whose policy lets in nothing but SEV-SNP guests of the AMD that publishes this.
    pub fn of_sev_snp_guests(name: &str, publish: impl FnOnce(&Path) -> io::Result<()>) -> Result<Self, HarnessError> {
        let policy = json!({
            "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
            "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0", "allow": ["smt"],
        });
        let fleet = Self::of_encrypted_guests(name, publish, "snp", policy)?;
        fleet.release(&launched(&fleet.image().values)?)?;
        Ok(fleet)
    }

    /// A site whose policy lets in nothing but TDX guests of the Intel that publishes this.
    pub fn of_tdx_guests(name: &str, publish: impl FnOnce(&Path) -> io::Result<()>) -> Result<Self, HarnessError> {
        let policy = json!({"mrtd": [LAUNCH.repeat(48)], "tcb_status": ["UpToDate"], "rtmrs": "any"});
        Self::of_encrypted_guests(name, publish, "tdx", policy)
    }

    /// A site whose policy has such a section.
    fn of_encrypted_guests(
        name: &str,
        publish: impl FnOnce(&Path) -> io::Result<()>,
        section: &str,
        demands: Value,
    ) -> Result<Self, HarnessError> {
        let plan = Plan { encrypted_guests: true, then: "echo OS up", ..Plan::default() };
        let mut fleet = Self::planned(name, plan)?;
        let collateral = fleet.run.subdirectory("collateral")?;
        publish(&collateral).map_err(io_error("write", &collateral))?;
        fleet.collateral = Some(collateral);
        let path = fleet.run.file("policy.json");
        let policy = std::fs::read(&path).map_err(io_error("read", &path))?;
        let unusable = |error: serde_json::Error| HarnessError::Unusable(format!("{}: {error}", path.display()));
        let mut policy: Value = serde_json::from_slice(&policy).map_err(unusable)?;
        policy[section] = demands;
        std::fs::write(&path, policy.to_string()).map_err(io_error("write", &path))?;
        Ok(fleet)
    }
}

impl Machine {
    /// Runs on this chip: what `for_another_process` of a fake of its vendor says of it.
    pub fn chip(self, interface: Interface, chip: &[u8]) -> Result<Self, HarnessError> {
        let name = match interface {
            Interface::SevGuestDevice => "sev-guest",
            Interface::SevGuestTsm => "tsm/sev_guest",
            Interface::TdxGuestTsm => "tsm/tdx_guest",
        };
        let file = self.run.write(&format!("{}-chip", self.name), chip)?;
        Ok(self.arguments(&["-fw_cfg", &format!("name=opt/latchkey-test/{name},file={}", file.display())]))
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
