//! The method as gRPC sees it: decide, take up, write the decision's line, answer.

use crate::ask::Ask;
use crate::centre::{Centre, Hindrance};
use crate::decision::{Candidate, CentresNames, Record, Refusal, Said, Waiting};
use crate::keeper::{Decided, Keeper, Outcome};
use crate::metrics::{Ended, Metrics};
use crate::source::{CurrentDirectory, EnrolSnapshot};
use latchkey_api::grpc::{Request, Status};
use latchkey_api::v1::enrol_response::Outcome as Answered;
use latchkey_api::v1::{BootstrapManifest, EnrolRequest, EnrolResponse, Enrolled, Enrolment, EnrolmentHeld};
use latchkey_attestation::{Admission, LockExpectation};
use latchkey_attesting_service::Node;
use latchkey_attesting_service::clock::unix;
use latchkey_channel::Purpose;
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::registration::{Admitted, Held, Invitation};
use latchkey_factory_plus::manager::BootstrapManifests;
use latchkey_factory_plus::{ClusterName, Uuid};
use latchkey_service_runtime::request_id::RequestIds;
use smol::future;
use std::sync::Arc;

/// When a node that waits asks again, in seconds.
const ASK_AGAIN: u32 = 10;

/// How many names of a rule's pattern may be others' at the centre before a machine is refused: each is a question to it.
const MAX_NAMES: usize = 64;

#[derive(Debug)]
pub(crate) struct EnrolService {
    pub(crate) current: Arc<CurrentDirectory>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) centre: Centre,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ids: RequestIds,
}

/// A cluster that was taken up, and what its node gets.
struct TakenUp {
    record: Box<Record>,
    first: bool,
    manifests: BootstrapManifests,
}

enum Answer {
    TakenUp(TakenUp),
    Held(Held, Waiting),
}

impl EnrolService {
    /// In this order: evidence as of now → decision and record → centre → manifests.
    async fn answer(&self, node: &Node, request: &EnrolRequest) -> Result<Answer, Refusal> {
        if node.purpose != Purpose::Enrol {
            return Err(Refusal::WrongPurpose);
        }
        let (ask, snapshot, now) = (Ask::try_from(request)?, self.current.snapshot(), unix());
        if snapshot.denials.has(&node.ek()) {
            return Err(Refusal::Denied);
        }
        let admission = admitted_now(node, &snapshot, now)?;
        let (record, first) = match self.decide(node, &snapshot, &admission, &ask, now).await? {
            Outcome::TakenUp { record, first } => (record, first),
            Outcome::Held(why) => return self.hold(node, &admission, &ask, why, now).await,
        };
        let manifests = self.take_up(&record).await?;
        Ok(Answer::TakenUp(TakenUp { record, first, manifests }))
    }

    async fn decide(
        &self,
        node: &Node,
        snapshot: &EnrolSnapshot,
        admission: &Admission,
        ask: &Ask,
        now: u64,
    ) -> Result<Outcome, Refusal> {
        let (invitation, admitted) = self.said(node, ask).await?;
        let policy_sha256 = hex::encode(snapshot.attestation_sha256);
        let candidate = Candidate {
            ek: node.ek(),
            lock: node.lock().ok_or(Refusal::NoLongerAdmitted)?,
            image: admission.image(),
            policy_sha256: &policy_sha256,
            disk: ask.disk,
            invitation: ask.invitation,
        };
        let mut names = CentresNames::new();
        let mut ended = false;
        loop {
            let (rules, invitation, admitted) = (&snapshot.own, invitation.as_ref(), admitted.as_ref());
            let said = Said { rules, invitation, admitted, names: &names };
            match self.keeper.decide(&said, &candidate, now).await {
                Ok(Decided::Ask(name)) => self.ask(name, &mut names).await?,
                Ok(Decided::Outcome(outcome)) => return Ok(outcome),
                // A name that is on record may be one of a cluster that is no more.
                Err(Refusal::NameTaken | Refusal::NoNameLeft) if !ended && self.end_records().await => ended = true,
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// Asks the centre, which may know of a cluster that was made on its page.
    async fn ask(&self, name: ClusterName, names: &mut CentresNames) -> Result<(), Refusal> {
        if names.len() >= MAX_NAMES {
            return Err(Refusal::NoNameLeft);
        }
        match self.centre.name_refusal(&name).await {
            Ok(None) => names.free(name),
            Ok(Some(reason)) => {
                tracing::info!(%name, reason, "The centre refuses a name");
                names.taken(&name);
            }
            Err(Hindrance { refusal, detail }) => {
                tracing::error!(%name, code = refusal.as_str(), detail, remedy = refusal.remedy(), "The centre does not say whether a name is free");
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Looks for clusters that the centre has nothing of any more, and frees their names; whether there were any.
    async fn end_records(&self) -> bool {
        let made: Vec<Uuid> = self.keeper.look(|records| records.made().collect());
        let ended = match self.centre.ended(&made).await {
            Ok(ended) => ended,
            Err(Hindrance { detail, .. }) => {
                tracing::warn!(detail, "The centre does not say which clusters have ended");
                return false;
            }
        };
        let mut any = false;
        for cluster in ended {
            if self.keeper.change(cluster, |record| record.ended = true).await.is_ok() {
                tracing::info!(%cluster, "The cluster was decommissioned: its name is free");
                any = true;
            }
        }
        any
    }

    /// What the operator said of this machine, as it is on the disk now.
    async fn said(&self, node: &Node, ask: &Ask) -> Result<(Option<Invitation>, Option<Admitted>), Refusal> {
        let (current, ek, shown) = (Arc::clone(&self.current), node.ek(), ask.invitation);
        let read = smol::unblock(move || {
            let directory = &current.source().0;
            let invitation = shown.map(|hash| directory.invitation(&hash)).transpose()?.flatten();
            Ok((invitation, directory.admitted(&ek)?))
        });
        read.await.map_err(|error| unusable(&error))
    }

    async fn hold(
        &self,
        node: &Node,
        admission: &Admission,
        ask: &Ask,
        why: Waiting,
        now: u64,
    ) -> Result<Answer, Refusal> {
        let says = (ask.node_name.as_str(), ask.kubernetes_version.as_str());
        let held = Held::new(node.ek(), ask.disk, admission.image(), why.as_str(), says, now);
        let (current, asks) = (Arc::clone(&self.current), held.clone());
        let written = smol::unblock(move || current.source().0.hold(&asks)).await;
        written.map_err(|error| unusable(&error))?;
        Ok(Answer::Held(held, why))
    }

    /// Every step may have been done before.
    async fn take_up(&self, record: &Record) -> Result<BootstrapManifests, Refusal> {
        let cluster = record.cluster;
        let hindered = |Hindrance { refusal, detail }: Hindrance| {
            tracing::error!(%cluster, code = refusal.as_str(), detail, remedy = refusal.remedy(), "The centre has not taken the cluster up");
            refusal
        };
        self.centre.configure(record).await.map_err(hindered)?;
        // What becomes durable beside the centre's work costs the node no time.
        let noted = async {
            self.keeper.change(cluster, |record| record.configured = true).await?;
            self.forget_held(record).await;
            Ok(())
        };
        let ready = async { self.centre.ready(cluster).await.map_err(hindered) };
        future::try_zip(noted, ready).await?;
        self.centre.manifests(cluster).await.map_err(hindered)
    }

    async fn forget_held(&self, record: &Record) {
        let (current, ek) = (Arc::clone(&self.current), record.ek_sha256);
        if let Err(error) = smol::unblock(move || current.source().0.forget_held(&ek)).await {
            // It is shown as waiting for a while; nothing is decided by that.
            tracing::warn!(cluster = %record.cluster, %error, "A machine that waited is still on the list");
        }
    }

    /// One line per decision, on the target `audit`; never a token, nor text that the node chose freely.
    fn decided(&self, node: &Node, answer: Result<&Answer, Refusal>) -> Result<(), Status> {
        let request_id = self.ids.next();
        let Node { address, purpose, audit_id, admission, .. } = node;
        let (ek, known_by) = (admission.ek_digest(), admission.trust().known_by().name());
        let image = admission.image();
        let (manifest, serial, machine) = (image.manifest.to_string(), image.serial, image.machine.as_str());
        let (image, version) = (image.name.as_str(), image.version.to_string());
        let (outcome, code, cluster, name, by) = match &answer {
            Ok(Answer::TakenUp(TakenUp { record, first, .. })) => {
                self.metrics.ended(if *first { Ended::TakenUp } else { Ended::Resumed });
                let outcome = if *first { "taken up" } else { "resumed" };
                (outcome, "-", record.cluster.to_string(), record.name.as_str(), format!("{:?}", record.by))
            }
            Ok(Answer::Held(_, why)) => {
                self.metrics.ended(Ended::Held);
                ("held", why.as_str(), "-".to_owned(), "-", "-".to_owned())
            }
            Err(refusal) => {
                self.metrics.refused(*refusal);
                ("refused", refusal.as_str(), "-".to_owned(), "-", "-".to_owned())
            }
        };
        tracing::info!(
            target: "audit", request_id, audit_id, peer = %address, %ek, known_by, %purpose, outcome, code, cluster, name, by, manifest,
            serial, image, version, machine, "Decision"
        );
        answer.map(drop).map_err(|refusal| refusal.status(&request_id))
    }
}

/// Judges the evidence again: policy, manifests or denials may be others than when the machine connected.
fn admitted_now(node: &Node, snapshot: &EnrolSnapshot, now: u64) -> Result<Admission, Refusal> {
    node.still_admitted(snapshot, LockExpectation::Locked, now).map_err(|refusal| {
        tracing::warn!(peer = %node.address, ek = %node.ek(), code = %refusal.code(), %refusal, "Not admitted any more");
        Refusal::NoLongerAdmitted
    })
}

fn unusable(error: &StoreError) -> Refusal {
    tracing::error!(%error, "The directory cannot be used");
    Refusal::DirectoryUnusable
}

impl From<TakenUp> for Enrolled {
    fn from(TakenUp { record, manifests, .. }: TakenUp) -> Self {
        let BootstrapManifests { token, expires, files, .. } = manifests;
        let manifests =
            files.into_iter().map(|file| BootstrapManifest { name: file.name, yaml: file.text.into_bytes() });
        Self {
            cluster_uuid: record.cluster.to_string(),
            name: record.name.to_string(),
            namespace: record.namespace.clone(),
            manifests: manifests.collect(),
            bootstrap_token: token,
            token_expires: expires,
        }
    }
}

impl Enrolment<Node> for EnrolService {
    async fn enrol(&self, request: Request<Node, EnrolRequest>) -> Result<EnrolResponse, Status> {
        let node = &request.context;
        // Boxed: the connection's future stays small.
        let answer = Box::pin(self.answer(node, &request.message)).await;
        self.decided(node, answer.as_ref().map_err(|refusal| *refusal))?;
        let outcome = match answer {
            Ok(Answer::TakenUp(taken_up)) => Answered::Enrolled(taken_up.into()),
            Ok(Answer::Held(held, _)) => Answered::Held(EnrolmentHeld {
                reference: held.reference(),
                ek_sha256: held.ek_sha256.to_string(),
                ask_again_seconds: ASK_AGAIN,
            }),
            Err(_) => return Err(Status::internal("refused")),
        };
        Ok(EnrolResponse { outcome: Some(outcome) })
    }
}
