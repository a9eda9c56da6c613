//! A node becomes a member of a cluster: what of the cluster step only a join has.
//!
//! `kubeadm join` is one command; a control plane's goes on where it was ([`Rest`]) once etcd may count the node, because a member that
//! is reset then costs the others their quorum.

use std::path::PathBuf;

use latchkey_api::v1::ClusterJoin;
use zeroize::Zeroizing;

use super::balancer::{self, ApiServers};
use super::config::{self, Phases};
use super::files::{self, Scratch};
use super::kubeadm::{Job, Kubeadm};
use super::record::{Found, Record};
use super::{Member, Progress, StepCode, StepError, check, discovery};

/// How kubeadm names the phase in which a node becomes a member of etcd, where it fails.
const ETCD_PHASE: &str = "error execution phase etcd-join";
/// etcd's `ErrMemberNotLearner`, and what follows it in `ErrLearnerNotReady`, which is said of a voter, too, while it is away.
const HAS_ITS_VOTE: &str = "etcdserver: can only promote a learner member";
const NOT_IN_SYNC: &str = " which is in sync with leader";

/// Whether etcd told kubeadm, in any of its tries, that the node is no learner any more. A vote is never taken back to that.
fn has_its_vote(error: &StepError) -> bool {
    let mut told = error.log_tail.split(HAS_ITS_VOTE).skip(1);
    told.any(|rest| !rest.starts_with(NOT_IN_SYNC))
}

/// What a control plane has left to do once etcd may count it, as configurations of kubeadm.
pub(super) struct Rest {
    /// From the announcement to etcd on: with little patience, and with all that kubeadm is given.
    briefly: Zeroizing<Vec<u8>>,
    patiently: Zeroizing<Vec<u8>>,
    after_etcd: Zeroizing<Vec<u8>>,
    /// The kubeconfig by which its kubelet asks for a certificate.
    bootstrap: Zeroizing<Vec<u8>>,
}

impl Kubeadm {
    pub(super) async fn join(
        &self,
        member: &Member,
        ticket: &ClusterJoin,
        progress: Progress<'_>,
    ) -> Result<(), StepError> {
        // The disk of a control plane that was given another role says the role of before; its ticket does not.
        if ticket.control_plane_files.is_empty() && self.is_etcd_member() {
            let message = format!("{} has data of a member of etcd, and the ticket is a worker's", self.etcd.display());
            return Err(StepError::new(StepCode::EtcdMemberStays, message));
        }
        let api_server = check::ticket(member.role, ticket)?;
        let files = check::control_plane_files(member.role, ticket)?;
        let api_servers = self.with_balancer(ApiServers::of_ticket(ticket)?)?;
        let record = Record::new(&self.directory, member, "join");
        let found = record.found()?;
        let (list, minor) = (&ticket.component_list, &ticket.kubernetes_version);
        if found == Found::Finished {
            return self.start_finished(member, list, minor, progress).await;
        }
        self.get_components(member, list, minor, progress).await?;
        let configuration = config::join(member, ticket, &self.discovery(), Phases::All)?;
        let endpoint = &ticket.api_server_endpoint;
        let way = if api_servers.is_some() { balancer::ADDRESS } else { endpoint };
        let (configuration, discovery, token) =
            (&configuration, &discovery::kubeconfig(ticket, way)?, &ticket.bootstrap_token);
        self.keep_services(member, &ticket.service_files, StepCode::TicketRefused)?;
        let rest = || {
            // kubeadm's kubelets of control planes go to the API server beside them, too.
            let local = config::local_api_server(endpoint).map_or_else(|| endpoint.clone(), |local| local.to_string());
            let configuration = |phases| config::join(member, ticket, &self.discovery(), phases);
            Ok(Rest {
                briefly: configuration(Phases::FromEtcd { briefly: true })?,
                patiently: configuration(Phases::FromEtcd { briefly: false })?,
                after_etcd: configuration(Phases::AfterEtcd)?,
                bootstrap: discovery::kubeconfig(ticket, &local)?,
            })
        };
        let rest = api_server.is_some().then(rest).transpose()?;
        let job = Job {
            verb: "join",
            configuration,
            files: files.as_ref(),
            api_server: api_server.as_ref(),
            api_servers: api_servers.as_ref(),
            discovery,
            token,
            record,
            rest,
        };
        self.complete(&job, found, progress).await
    }

    /// The end of a join that was interrupted, or failed, when etcd counted this node already, or was about to. The kubelet comes
    /// first: it starts etcd, without which the others may have no quorum, and so no API server.
    pub(super) async fn go_on(&self, job: &Job<'_>, rest: &Rest, progress: Progress<'_>) -> Result<(), StepError> {
        let is_member = self.is_etcd_member();
        let why = if is_member { "etcd counts this node already" } else { "etcd does not know this node yet" };
        progress(&format!("going on with the join, nothing is reset: {why}"));
        if !self.directory.join("kubelet.conf").exists() {
            files::write(&self.directory.join("bootstrap-kubelet.conf"), &rest.bootstrap)?;
        }
        self.start_kubelet(progress).await?;
        let _discovery = Scratch::write(self.discovery(), job.discovery)?;
        if is_member {
            // kubeadm asks for a vote that the member may have, and would ask again until its patience ends. Its static pod is written
            // first, so this is not left out: what kubeadm wrote before the cut need not have come to the disk.
            match self.with_file(job.verb, &rest.briefly, job.token, progress).await {
                Err(error) if has_its_vote(&error) => {
                    progress("etcd has given this node its vote already");
                    return self.with_file(job.verb, &rest.after_etcd, job.token, progress).await;
                }
                Err(error) if error.message.contains(ETCD_PHASE) => progress(&format!("with more patience: {error}")),
                done => return done,
            }
        }
        self.with_file(job.verb, &rest.patiently, job.token, progress).await
    }

    /// Whether etcd may count this node as a voter: then nothing of it is reset, because with its data the cluster may lose its
    /// quorum. A member that was announced and has no data yet is a learner, which no quorum waits for, and is taken up by the next try.
    pub(super) fn is_etcd_member(&self) -> bool {
        // What cannot be looked at may be there.
        self.etcd.join("member").try_exists().unwrap_or(true)
    }

    /// Whether kubeadm has come so far that the kubelet asks for its certificate.
    pub(super) fn kubelet_is_set_up(&self) -> bool {
        let kubeconfigs = ["kubelet.conf", "bootstrap-kubelet.conf"];
        kubeconfigs.iter().any(|name| self.directory.join(name).exists()) && self.kubelet.join("config.yaml").exists()
    }

    pub(super) fn discovery(&self) -> PathBuf {
        self.run.join("discovery.json")
    }
}
