//! What the driver does to the machine it runs on: the register, the disk, the hand-over. Each may fail.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use latchkey_attestation::Policy;
use latchkey_keys::Uuid;
use latchkey_tpm::device::{AttestingTpm, TpmError};

use super::disk::{OpenDisk, StateDisk};
use super::{BootCode, BootError};
use crate::flows::{Membership, Offer};
use crate::handover::{self, HandOver};
use crate::lifecycle::{Digest, Event, LockOrder, OfferId, OpenPermit};

/// The machine as the driver uses it. Tests have one whose parts fail.
pub(super) trait Machine {
    /// Of the header that is or will be on the disk.
    fn disk_uuid(&self) -> Uuid;

    /// What the probe found on the disk: the first event of a boot.
    fn disk_event(&self) -> Event;

    /// Tries an offered key on the header copy.
    fn check_key(&mut self, id: OfferId, offer: &Offer) -> Event;

    /// Extends PCR 15 with the cluster id of the order and reads it back.
    fn lock(&mut self, order: LockOrder) -> impl Future<Output = Result<Digest, BootError>>;

    /// Opens the disk, and formats it first if the permit says so.
    fn open(
        &mut self,
        permit: OpenPermit,
        offer: &Offer,
        membership: Option<&Membership>,
    ) -> Result<OpenDisk, BootError>;

    /// Writes what stage 2 needs.
    fn hand_over(&mut self, handover: &HandOver) -> Result<(), BootError>;

    /// Gives the disk back after a bootstrap that never finished.
    fn reset(&mut self, code: &str, attempts: u8) -> Result<(), BootError>;
}

/// The machine that this process runs on.
pub(super) struct RealMachine {
    tpm: Arc<Mutex<AttestingTpm>>,
    disk: StateDisk,
    /// Loads what the kernel needs to open the disk; `None` once that is awaited.
    modules: Option<smol::Task<Result<(), BootError>>>,
    hand_over: PathBuf,
}

impl RealMachine {
    pub(super) fn new(
        tpm: Arc<Mutex<AttestingTpm>>,
        disk: StateDisk,
        modules: smol::Task<Result<(), BootError>>,
    ) -> Self {
        Self { tpm, disk, modules: Some(modules), hand_over: Path::new(handover::PATH).into() }
    }
}

impl Machine for RealMachine {
    fn disk_uuid(&self) -> Uuid {
        self.disk.uuid()
    }

    fn disk_event(&self) -> Event {
        self.disk.event()
    }

    fn check_key(&mut self, id: OfferId, offer: &Offer) -> Event {
        self.disk.check(id, offer)
    }

    async fn lock(&mut self, order: LockOrder) -> Result<Digest, BootError> {
        // A machine that cannot open its disk must not lock itself.
        if let Some(modules) = self.modules.take() {
            modules.await?;
        }
        let tpm = Arc::clone(&self.tpm);
        let locked = smol::unblock(move || {
            let mut tpm = tpm
                .lock()
                .map_err(|_| BootError::new("lock", BootCode::TpmBroken, "another user of the TPM panicked"))?;
            let failed = |error: TpmError| BootError::new("lock", error.code(), &error);
            tpm.extend_event(Policy::LOCK_PCR, order.event()).map_err(failed)?;
            tpm.read_pcr(Policy::LOCK_PCR).map_err(failed)
        });
        Ok(Digest(locked.await?))
    }

    fn open(
        &mut self,
        permit: OpenPermit,
        offer: &Offer,
        membership: Option<&Membership>,
    ) -> Result<OpenDisk, BootError> {
        self.disk.open(permit, offer, membership)
    }

    fn hand_over(&mut self, handover: &HandOver) -> Result<(), BootError> {
        handover.write(&self.hand_over).map_err(|error| BootError::new("hand-over", BootCode::HandOverFailed, &error))
    }

    fn reset(&mut self, code: &str, attempts: u8) -> Result<(), BootError> {
        self.disk.reset(code, attempts)
    }
}

#[cfg(test)]
mod tests {
    use latchkey_api::OfferRefusal;
    use latchkey_disk::{Disk, DiskError, KernelRandom, NodeState, Phase, Probe, Role, TokenKey, probe, update_state};
    use latchkey_keys::{ClusterId, Secret};
    use smol::channel::bounded;
    use tempfile::TempDir;

    use super::*;
    use crate::flows::tests::{Machine as Tpm2, disk as uuid};
    use crate::flows::{Offer, Terms};
    use crate::handover::Task;
    use crate::lifecycle::{Effect, Node, NodeRole, Source, Verdict};
    use crate::platform::devices::{BlockDevice, Kind};
    use crate::platform::modules::ModuleCode;
    use latchkey_node_config::StateIntegrity;

    fn secret(byte: u8) -> Secret<32> {
        Secret::from_slice(&[byte; 32]).unwrap()
    }

    fn cluster_id() -> ClusterId {
        ClusterId::derive(&secret(2), &[3; 32]).unwrap()
    }

    /// A blank disk in a file.
    fn blank(directory: &TempDir) -> StateDisk {
        let path = directory.path().join("disk");
        if !path.exists() {
            std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
        }
        let device = BlockDevice {
            // Joined to /dev, an absolute path stays what it is.
            name: path.display().to_string(),
            kind: Kind::Disk,
            bytes: 32 << 20,
            sector: 512,
            read_only: false,
            removable: false,
            serial: None,
        };
        StateDisk::look(device, StateIntegrity::None).unwrap()
    }

    /// The disk of a worker, opened by a key of ones and of the cluster of the secret of twos.
    fn formatted(directory: &TempDir) -> StateDisk {
        drop(blank(directory));
        let mut disk = Disk::open_shared(&directory.path().join("disk")).unwrap();
        let Probe::Fresh(fresh) = probe(&disk).unwrap() else { panic!("not fresh") };
        let state = NodeState {
            role: Role::Worker,
            node_name: "node-1".parse().unwrap(),
            cluster_id: cluster_id(),
            measurement_salt: [3; 32],
            phase: Phase::Formatted,
            epoch: 1,
            attempt: 0,
        };
        let unlocked = fresh.format(&mut disk, uuid(), &secret(1), state, &mut KernelRandom).unwrap();
        let token_key: TokenKey = unlocked.into_token_key();
        let done = |state: &NodeState| NodeState { phase: Phase::Bootstrapped, ..state.clone() };
        let marked: Result<_, DiskError> = update_state(&mut disk, &token_key, done, &mut KernelRandom);
        marked.unwrap();
        blank(directory)
    }

    fn offer(key: u8, secret_of: u8, terms: Terms) -> Offer {
        let (answer, _) = bounded::<Verdict>(1);
        Offer { source: Source::Rejoin, disk_key: secret(key), measurement_secret: secret(secret_of), terms, answer }
    }

    fn known() -> Terms {
        Terms::Known { epoch: None, components: None }
    }

    fn member() -> Membership {
        Membership {
            cluster_id: cluster_id(),
            measurement_salt: [3; 32],
            cluster_name: String::new(),
            node_name: "node-1".into(),
            role: NodeRole::Worker,
            epoch: 1,
            task: Task::start(None),
        }
    }

    /// What a machine whose disk was taken orders next: the lock, and after it the permit.
    fn ordered(events: Vec<Event>) -> Effect {
        let mut node = Node::new();
        let mut last = Vec::new();
        for event in events {
            last = node.handle(event);
        }
        last.pop().unwrap()
    }

    fn taken() -> Vec<Event> {
        let cluster_id = Some(Digest(*cluster_id().as_bytes()));
        let grant = crate::lifecycle::Grant { id: OfferId(0), source: Source::Join, cluster_id, epoch: None };
        vec![Event::DiskFresh { attempts: 0 }, Event::Offered(grant)]
    }

    fn order() -> LockOrder {
        let Effect::Lock(order) = ordered(taken()) else { panic!("no lock") };
        order
    }

    fn permit() -> OpenPermit {
        let mut events = taken();
        events.push(Event::Extended { pcr15: order().expected() });
        let Effect::OpenDisk(permit) = ordered(events) else { panic!("no permit") };
        permit
    }

    #[test]
    fn the_right_key_with_another_clusters_secret_is_refused_by_the_disks_own_token() {
        let directory = tempfile::tempdir().unwrap();
        let mut disk = formatted(&directory);
        let code = |event: Event| match event {
            Event::KeyWrong { code, .. } => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(disk.check(OfferId(0), &offer(1, 9, known()))), OfferRefusal::WrongCluster);
        assert_eq!(code(disk.check(OfferId(1), &offer(9, 2, known()))), OfferRefusal::DiskWrongKey);
        let fits = disk.check(OfferId(2), &offer(1, 2, known()));
        assert!(matches!(fits, Event::KeyFits { id: OfferId(2), .. }), "{fits:?}");
    }

    fn loaded() -> smol::Task<Result<(), BootError>> {
        smol::spawn(std::future::ready(Ok(())))
    }

    #[test]
    fn a_machine_whose_modules_do_not_load_is_not_locked() {
        let Some(tpm) = Tpm2::start() else { return };
        let attester = Arc::clone(&tpm.attester);
        let directory = tempfile::tempdir().unwrap();
        let refused = BootError::new("state-disk-modules", ModuleCode::Refused, "dm_crypt.ko");
        let modules = smol::spawn(std::future::ready(Err(refused)));
        let mut machine = RealMachine::new(Arc::clone(&attester), blank(&directory), modules);
        let failure = latchkey_test_support::block_on(machine.lock(order())).unwrap_err();
        assert_eq!(failure.code, ModuleCode::Refused);
        assert_eq!(attester.lock().unwrap().read_pcr(Policy::LOCK_PCR).unwrap(), [0; 32]);
    }

    #[test]
    fn a_tpm_that_is_gone_or_a_register_that_was_used_gives_no_lock() {
        let Some(tpm) = Tpm2::start() else { return };
        let attester = Arc::clone(&tpm.attester);
        let directory = tempfile::tempdir().unwrap();
        let mut machine = RealMachine::new(Arc::clone(&attester), blank(&directory), loaded());
        latchkey_test_support::block_on(async {
            assert_eq!(machine.lock(order()).await.unwrap(), order().expected());
            // Again: the register is no longer zero, and what is read back is not what the node expects.
            assert_ne!(machine.lock(order()).await.unwrap(), order().expected());
            drop(tpm);
            assert!(machine.lock(order()).await.is_err());
        });
    }

    /// A file has no device number, so the device mapper cannot map it: whether or not this machine has one.
    #[test]
    fn a_disk_that_cannot_be_mapped_is_an_error_and_is_never_tried_twice() {
        let Some(tpm) = Tpm2::start() else { return };
        let directory = tempfile::tempdir().unwrap();
        let mut machine = RealMachine::new(Arc::clone(&tpm.attester), blank(&directory), loaded());
        let (offer, member) = (offer(1, 2, known()), member());
        assert!(machine.open(permit(), &offer, Some(&member)).is_err());
        let again = machine.open(permit(), &offer, Some(&member)).err().unwrap();
        assert_eq!(again.code, BootCode::Bug);
    }

    #[test]
    fn a_disk_that_does_not_format_is_an_error_and_stays_fresh() {
        let Some(tpm) = Tpm2::start() else { return };
        let directory = tempfile::tempdir().unwrap();
        let mut machine = RealMachine::new(Arc::clone(&tpm.attester), blank(&directory), loaded());
        // The medium shrinks under its user.
        std::fs::OpenOptions::new().write(true).open(directory.path().join("disk")).unwrap().set_len(0).unwrap();
        assert!(machine.open(permit(), &offer(1, 2, known()), Some(&member())).is_err());
    }

    #[test]
    fn a_hand_over_that_cannot_be_written_is_an_error() {
        let Some(tpm) = Tpm2::start() else { return };
        let directory = tempfile::tempdir().unwrap();
        let mut machine = RealMachine::new(Arc::clone(&tpm.attester), blank(&directory), loaded());
        // A file where a directory must be.
        machine.hand_over = directory.path().join("disk/handover.json");
        let handover = HandOver {
            version: 1,
            node_name: "node-1".into(),
            role: NodeRole::Worker,
            cluster_id: cluster_id().to_string(),
            cluster_name: String::new(),
            disk_uuid: uuid().to_string(),
            phase: crate::lifecycle::DiskPhase::Formatted,
            attempts: 0,
            device: "/dev/vda".into(),
            mapping: "/dev/mapper/state".into(),
            token_key: crate::handover::SecretText::new(&[4; 32]),
            task: Task::start(None),
            join_services: Vec::new(),
            left_at_ms: 1,
        };
        assert_eq!(machine.hand_over(&handover).unwrap_err().code, BootCode::HandOverFailed);
    }
}
