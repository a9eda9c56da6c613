//! Brings the machine up: file systems, configuration, modules, devices, the root, TPM, network, metadata, a state partition
//! that grows, and a look at the disk.
//!
//! Nothing here trusts anything yet. What is measured (the command line) decides; what is not (metadata, the disk's
//! claims) only asks.

use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchkey_attestation::EkDigest;
use latchkey_channel::{Attester, TpmAttester};
use latchkey_tpm::device::{AttestationKeySource, AttestingTpm, CharDevice, Tpm, TpmError};
use latchkey_tpm::wire::{EkTemplate, Public};

use super::disk::StateDisk;
use super::machine::RealMachine;
use super::{BootError, TIMELINE, grow};
use crate::platform::devices::{BlockDevice, Wanted, Watch};
use crate::platform::metadata::{self, InstanceMetadata, MetadataError, Settled};
use crate::platform::modules::Need;
use crate::platform::net::{self, Network};
use crate::platform::pid1::Pid1;
use crate::platform::processor::KernelReports;
use crate::platform::root::{Located, OpenRoot};
use crate::platform::{PlatformError, console, entropy, hardening, logging, modules, mounts, power};
use latchkey_node_config::{Config, ConsoleQr};

/// The firmware's event log, and the most of it that is sent along (`TpmEvidence::event_log`).
const EVENT_LOG: (&str, u64) = ("/sys/kernel/security/tpm0/binary_bios_measurements", 128 * 1024);

/// All of a machine that is up.
pub(super) struct Up {
    pub(super) root: OpenRoot,
    pub(super) prepared: Prepared,
    pub(super) machine: RealMachine,
    /// Tells the cloud that this machine is up, if it wants to be told.
    pub(super) report: smol::Task<()>,
}

/// A machine that is up.
pub(super) struct Prepared {
    pub(super) config: Config,
    pub(super) attester: Arc<dyn Attester>,
    pub(super) network: Option<Network>,
    pub(super) metadata: InstanceMetadata,
    pub(super) node_name: String,
}

pub(super) fn prepare(pid1: Pid1) -> Result<Up, BootError> {
    run("mounts", || {
        mounts::kernel_file_systems(pid1)?;
        // Before the console is opened, and reported on it.
        let closed = hardening::close(pid1);
        console::attach(pid1)?;
        Ok::<_, PlatformError>(closed?)
    })?;
    power::ignore_ctrl_alt_del(pid1);

    let config = run("config", || {
        let config = Config::from_kernel()?;
        config.root()?;
        config.cluster_step()?;
        Ok::<_, latchkey_node_config::ConfigError>(config)
    })?;
    logging::install(config.log);

    run("modules", || modules::load(pid1, Need::Devices).map(drop))?;
    mounts::configfs(pid1);
    let step = TIMELINE.begin("entropy");
    entropy::wait();
    step.done();
    smol::block_on(find_all(pid1, config))
}

/// The TPM works, the root is opened and the network comes up while the disks are looked for.
async fn find_all(pid1: Pid1, config: Config) -> Result<Up, BootError> {
    let watch = Watch::begin().map_err(|error| failure("devices", &error.into()))?;
    let (template, key) = (crate::ek_template(config.ek), crate::attestation_key(config.ak));
    let qr = config.console_qr;
    let tpm = smol::unblock(move || attesting_tpm(template, key, qr));
    let source = run("metadata-source", || metadata::settle(config.metadata))?;
    let volume = Box::pin(metadata_volume(source, config.device_timeout));
    let disks = Box::pin(open_root(pid1, &config, watch));
    let network = Box::pin(run_async("network", net::up(&config)));
    // The network first: it has asked for an address while the disks are still looked at.
    let disks = smol::future::try_zip(disks, volume);
    let (network, ((root, state), volume)) = smol::future::try_zip(network, disks).await?;
    let tpm = tpm.await?;

    let (metadata, report) = fetch_metadata(source, volume).await?;
    let node_name = metadata.node_name.clone().unwrap_or_else(|| name_from(&tpm));

    let step = TIMELINE.begin("grow-state");
    let (state, grown) = grow::grow(state)?;
    step.note(format_args!("{}: {grown}", state.name));
    step.done();

    let step = TIMELINE.begin("look-at-disk");
    let disk = StateDisk::look(state, config.state_integrity).inspect(|disk| step.note(disk))?;
    step.done();

    let tpm = Arc::new(Mutex::new(tpm));
    let mut attester = TpmAttester::new(Arc::clone(&tpm)).with_processor_reports(Arc::new(KernelReports::default()));
    if let Some(log) = event_log() {
        attester = attester.with_event_log(log);
    }
    let attester = Arc::new(attester);
    // A key is still to come, and the processor has nothing else to do meanwhile.
    let modules = smol::unblock(move || run("state-disk-modules", || modules::load(pid1, Need::StateDisk).map(drop)));
    let machine = RealMachine::new(tpm, disk, modules);
    Ok(Up {
        root,
        prepared: Prepared { config, attester, network: Some(network), metadata, node_name },
        machine,
        report,
    })
}

/// Opens the root while the state disk is looked for.
async fn open_root(pid1: Pid1, config: &Config, watch: Watch) -> Result<(OpenRoot, BlockDevice), BootError> {
    let step = TIMELINE.begin("devices");
    let failed = |error: PlatformError| failure("devices", &error);
    let verity = config.root().map_err(|e| failed(e.into()))?;
    let located = Located::find(verity, config.device_timeout).await.map_err(|e| failed(e.into()))?;
    step.note(format_args!("root {located}"));
    let taken = located.devices();
    let opening = {
        let config = config.clone();
        smol::unblock(move || {
            run("root-modules", || modules::load(pid1, Need::Root).map(drop))?;
            let step = TIMELINE.begin("root");
            let root = OpenRoot::open(pid1, &located, &config).map_err(|error| failure("root", &error))?;
            step.note(&root);
            step.done();
            Ok(root)
        })
    };
    let finding = async {
        let wanted = Wanted::state(&config.state_disk, &taken);
        let state = watch.find(&wanted, config.device_timeout).await.map_err(|e| failed(e.into()))?;
        step.note(format_args!("state {state}"));
        step.done();
        Ok(state)
    };
    smol::future::try_zip(opening, finding).await
}

/// The volume that metadata are on, if they are on one.
async fn metadata_volume(source: Settled, timeout: Duration) -> Result<Option<BlockDevice>, BootError> {
    if !source.is_volume() {
        return Ok(None);
    }
    let name = "metadata-volume";
    let step = TIMELINE.begin(name);
    let volume = source.volume(timeout).await.map_err(|error| failure(name, &error.into()))?;
    if let Some(volume) = &volume {
        step.note(volume);
    }
    step.done();
    Ok(volume)
}

/// Of a machine that nobody says anything about they are empty. The task tells their cloud that this machine is up.
async fn fetch_metadata(
    source: Settled,
    volume: Option<BlockDevice>,
) -> Result<(InstanceMetadata, smol::Task<()>), BootError> {
    let step = TIMELINE.begin("metadata");
    let failed = |error: MetadataError| failure("metadata", &error.into());
    let metadata = source.fetch(volume.as_ref()).await.map_err(failed)?;
    match &metadata {
        Some(_) => step.note(format_args!("{source}")),
        None => step.note(format_args!("{source}, which says nothing of this machine")),
    }
    step.done();
    let report = smol::spawn(async move {
        if let Some(said) = source.report_ready().await {
            console::line("metadata", &said);
        }
    });
    Ok((metadata.unwrap_or_default(), report))
}

fn attesting_tpm(template: EkTemplate, source: AttestationKeySource, qr: ConsoleQr) -> Result<AttestingTpm, BootError> {
    let step = TIMELINE.begin("tpm");
    let made = CharDevice::open(CharDevice::DEFAULT)
        .map_err(TpmError::Io)
        .and_then(|device| AttestingTpm::with_key_of(Tpm::new(device), template, source));
    let tpm = made.map_err(|error| BootError::new("tpm", error.code(), &error))?;
    let certificate = if tpm.ek_certificate().is_some() { "with" } else { "without" };
    // An operator compares it with what the command line asks about.
    step.note(format_args!(
        "endorsement key {certificate} certificate, sha256 {}",
        hex::encode(digest(tpm.ek_public()))
    ));
    step.note(format_args!("in words {}", EkDigest::from_bytes(digest(tpm.ek_public())).words()));
    let mut known_by = tpm.ek_public();
    if source != AttestationKeySource::Own {
        let ak = hex::encode(digest(tpm.ak_public()));
        let certificate = if tpm.ak_certificate().is_some() { "with" } else { "without" };
        step.note(format_args!("attestation key {} {certificate} certificate, sha256 {ak}", source.name()));
        step.note(format_args!("in words {}", EkDigest::from_bytes(digest(tpm.ak_public())).words()));
        known_by = tpm.ak_public();
    }
    if qr == ConsoleQr::Ascii {
        console::picture(&EkDigest::from_bytes(digest(known_by)).qr());
    }
    step.done();
    Ok(tpm)
}

/// A node that is told no name is named by its endorsement key, so that it has the same name at every boot, as long as its
/// TPM keeps that key.
fn name_from(tpm: &AttestingTpm) -> String {
    format!("node-{}", hex::encode(digest(tpm.ek_public()).get(..6).unwrap_or_default()))
}

/// What policies, records and the command line call a TPM by: SHA-256 of the `TPMT_PUBLIC` of its endorsement key, or of its
/// attestation key where a policy trusts that one (`ak-chain` or `ak-azure-hcl`).
fn digest(key: &Public) -> [u8; 32] {
    latchkey_boot_formats::sha256(&[&key.marshal()])
}

/// A log that is missing or too long is no reason to stop: it only explains.
fn event_log() -> Option<Vec<u8>> {
    let (path, most) = EVENT_LOG;
    let mut log = Vec::new();
    File::open(path).ok()?.take(most + 1).read_to_end(&mut log).ok()?;
    (log.len() as u64 <= most).then_some(log)
}

fn run<T, F: Into<PlatformError>>(name: &'static str, work: impl FnOnce() -> Result<T, F>) -> Result<T, BootError> {
    let step = TIMELINE.begin(name);
    let value = work().map_err(|error| failure(name, &error.into()))?;
    step.done();
    Ok(value)
}

async fn run_async<T: Display, F: Into<PlatformError>>(
    name: &'static str,
    work: impl Future<Output = Result<T, F>>,
) -> Result<T, BootError> {
    let step = TIMELINE.begin(name);
    let value = work.await.map_err(|error| failure(name, &error.into()))?;
    step.note(&value);
    step.done();
    Ok(value)
}

fn failure(step: &'static str, error: &PlatformError) -> BootError {
    BootError::new(step, error.code(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_is_refused_says_on_the_console_what_to_do() {
        for (line, remedy) in [
            ("latchkey.network=maybe", "give the value the form that the sentence names"),
            ("latchkey.debug=1", "correct the key or remove it"),
        ] {
            let error = Config::parse(line.as_bytes()).unwrap_err();
            let failure = failure("config", &PlatformError::from(error));
            let sentence = console::with_remedy(failure.code, &failure.message);
            assert!(sentence.ends_with(remedy) && failure.message.contains("latchkey."), "{sentence}");
        }
    }
}
