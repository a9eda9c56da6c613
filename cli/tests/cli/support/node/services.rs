//! The node's services: `Init` and `Recovery`, as the agent serves them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latchkey_api::grpc::{Replies, Request, Status};
use latchkey_api::v1::{
    AttachRequest, AuthorizeRequest, AuthorizeResponse, DescribeRequest, DescribeResponse, Failed, Init, InitEvent,
    InitRequest, Locked, NodeStage, Progress, RecoverRequest, RecoverResponse, Recovery, Succeeded, init_event::Event,
};
use latchkey_channel::Purpose;
use latchkey_keys::{ClusterId, Secret, Uuid};
use smol::channel::{Sender, unbounded};

use super::{ADDRESSES, ADMIN_CONFIG, Behaviour, Happened, Inner, Stage, Tpm};

/// A connection.
pub(super) struct Visit {
    pub(super) role: Purpose,
    /// Whether it proved the init secret.
    pub(super) authorized: AtomicBool,
    /// Sent to break it.
    pub(super) cut: Sender<()>,
}

impl Visit {
    /// Breaks the connection; what the call would say is lost.
    async fn break_off<T>(&self) -> T {
        let _ = self.cut.send(()).await;
        std::future::pending().await
    }
}

pub(super) struct Services(pub(super) Arc<Inner>);

impl Inner {
    pub(super) fn serves(&self, role: Purpose) -> bool {
        let stage = self.state.lock().unwrap().stage;
        match stage {
            Stage::Fresh => matches!(role, Purpose::Init | Purpose::Verify),
            Stage::Existing => matches!(role, Purpose::Recover | Purpose::Verify),
            Stage::Bootstrapping => matches!(role, Purpose::Attach | Purpose::Verify),
        }
    }

    pub(super) fn describe(&self) -> DescribeResponse {
        let state = self.state.lock().unwrap();
        let (shown, cluster) = match state.stage {
            Stage::Fresh => (NodeStage::Fresh, None),
            Stage::Existing => (NodeStage::Existing, None),
            Stage::Bootstrapping => (NodeStage::Bootstrapping, state.cluster),
        };
        DescribeResponse {
            node_name: "edge-1".into(),
            disk_uuid: state.disk.to_string(),
            stage: shown.into(),
            agent_version: "0.1.0".into(),
            cluster_id: cluster.map(|id| id.to_string()).unwrap_or_default(),
        }
    }

    pub(super) fn check_secret(&self, secret: &[u8]) -> Result<(), Status> {
        let mut state = self.state.lock().unwrap();
        if let Some(tries) = &mut state.behaviour.tries {
            if *tries == 0 {
                return Err(Status::resource_exhausted("too many wrong init secrets; try again in 10 s"));
            }
            *tries -= 1;
        }
        if state.init_secret == secret { Ok(()) } else { Err(Status::permission_denied("wrong init secret")) }
    }

    /// Takes the keys, as long as nobody else's are taken.
    pub(super) fn take_keys(&self, message: &InitRequest) -> Result<ClusterId, Status> {
        let mut state = self.state.lock().unwrap();
        state.inits += 1;
        if state.cluster.is_some() {
            let _ = self.refused.0.try_send(());
            return Err(Status::failed_precondition(
                "the node already took another offer in this boot; look at its console to see which",
            ));
        }
        assert_eq!(message.disk_uuid, state.disk.to_string());
        let secret = Secret::from_slice(&message.measurement_secret).unwrap();
        let salt = message.measurement_salt.as_slice().try_into().unwrap();
        let cluster = ClusterId::derive(&secret, &salt).unwrap();
        state.cluster = Some(cluster);
        state.invitation.clone_from(&message.invitation);
        state.settings.clone_from(&message.settings);
        state.control_plane_files.clone_from(&message.control_plane_files);
        state.keys = Some((Secret::from_slice(&message.state_disk_key).unwrap(), secret, salt));
        let _ = self.happened.0.try_send(Happened::KeysTaken);
        Ok(cluster)
    }

    pub(super) fn lock(&self, cluster: ClusterId) {
        self.tpm.set_lock(cluster.locked_pcr15());
        if let Tpm::Real(attester) = &self.tpm {
            attester.lock().unwrap().extend_event(15, cluster.lock_event()).unwrap();
        }
        self.state.lock().unwrap().stage = Stage::Bootstrapping;
    }
}

async fn tell(replies: &mut Replies<InitEvent>, elapsed_ms: u64, step: &str, detail: &str) -> Result<(), Status> {
    let progress = Progress { step: step.into(), detail: detail.into(), elapsed_ms };
    replies.send(&InitEvent { event: Some(Event::Progress(progress)) }).await
}

fn failed(code: &str, message: &str, disk_reset: bool) -> InitEvent {
    let failed = Failed {
        code: code.into(),
        message: message.into(),
        log_tail: b"+ kubeadm init\nport 6443 is in use\n".to_vec(),
        disk_reset,
    };
    InitEvent { event: Some(Event::Failed(failed)) }
}

impl Init<Visit> for Services {
    async fn describe(&self, _: Request<Visit, DescribeRequest>) -> Result<DescribeResponse, Status> {
        Ok(self.0.describe())
    }

    async fn authorize(&self, request: Request<Visit, AuthorizeRequest>) -> Result<AuthorizeResponse, Status> {
        assert_eq!(request.context.role, Purpose::Init);
        self.0.state.lock().unwrap().secrets += 1;
        self.0.check_secret(&request.message.init_secret)?;
        request.context.authorized.store(true, Ordering::Relaxed);
        Ok(AuthorizeResponse {})
    }

    async fn init(&self, request: Request<Visit, InitRequest>, mut replies: Replies<InitEvent>) -> Result<(), Status> {
        assert_eq!(request.context.role, Purpose::Init);
        assert!(request.context.authorized.load(Ordering::Relaxed), "keys before the secret was proven");
        let cluster = self.0.take_keys(&request.message)?;
        tell(&mut replies, 12_300, "lock", "extending PCR 15 with the cluster id").await?;
        let (cut, restart, hold, fail) = {
            let behaviour = &mut self.0.state.lock().unwrap().behaviour;
            let Behaviour { cut_init, restart_during_init, hold_init, fail_init, .. } = behaviour;
            (std::mem::take(cut_init), std::mem::take(restart_during_init), *hold_init, fail_init.take())
        };
        if restart {
            self.0.state.lock().unwrap().cluster = None;
            self.0.state.lock().unwrap().disk = Uuid::random().unwrap();
            return request.context.break_off().await;
        }
        if let Some((code, message)) = fail {
            self.0.state.lock().unwrap().cluster = None;
            return replies.send(&failed(code, message, false)).await;
        }
        // Goes on if the connection does not.
        let inner = Arc::clone(&self.0);
        let (done, locked) = unbounded::<()>();
        smol::spawn(async move {
            if hold {
                let _ = inner.refused.1.recv().await;
            }
            inner.lock(cluster);
            drop(done);
        })
        .detach();
        let _ = locked.recv().await;
        if cut {
            return request.context.break_off().await;
        }
        tell(&mut replies, 12_600, "format-disk", "LUKS2, aes-xts-plain64").await?;
        let another = self.0.state.lock().unwrap().behaviour.another_cluster;
        let cluster_id = if another { vec![0xc2; 32] } else { cluster.as_bytes().to_vec() };
        let locked = Locked { cluster_id };
        replies.send(&InitEvent { event: Some(Event::Locked(locked)) }).await
    }

    async fn attach(
        &self,
        request: Request<Visit, AttachRequest>,
        mut replies: Replies<InitEvent>,
    ) -> Result<(), Status> {
        assert_eq!(request.context.role, Purpose::Attach);
        self.0.check_secret(&request.message.init_secret)?;
        tell(&mut replies, 20_100, "cluster-step", "certificates").await?;
        let (cut, hold, fail) = {
            let behaviour = &mut self.0.state.lock().unwrap().behaviour;
            (std::mem::take(&mut behaviour.cut_attach), behaviour.hold_attach, behaviour.fail_bootstrap.take())
        };
        let _ = self.0.happened.0.try_send(Happened::Attached);
        if hold {
            return std::future::pending().await;
        }
        if cut {
            return request.context.break_off().await;
        }
        if let Some((code, message)) = fail {
            self.0.state.lock().unwrap().cluster = None;
            return replies.send(&failed(code, message, true)).await;
        }
        tell(&mut replies, 25_000, "cluster-step", "control plane is up\x1b[2J").await?;
        let before = self.0.state.lock().unwrap().behaviour.before_the_end.take();
        if let Some(before) = before {
            before();
        }
        let config = self.0.state.lock().unwrap().behaviour.admin_config.clone();
        let succeeded = Succeeded {
            cluster_id: request.message.cluster_id.clone(),
            admin_config: config.unwrap_or_else(|| ADMIN_CONFIG.to_vec()),
            addresses: ADDRESSES.map(str::to_owned).to_vec(),
        };
        replies.send(&InitEvent { event: Some(Event::Succeeded(succeeded)) }).await
    }
}

impl Recovery<Visit> for Services {
    async fn describe(&self, _: Request<Visit, DescribeRequest>) -> Result<DescribeResponse, Status> {
        Ok(self.0.describe())
    }

    async fn recover(&self, request: Request<Visit, RecoverRequest>) -> Result<RecoverResponse, Status> {
        assert_eq!(request.context.role, Purpose::Recover);
        let mut state = self.0.state.lock().unwrap();
        state.recoveries += 1;
        state.components.clone_from(&request.message.components);
        assert_eq!(request.message.disk_uuid, state.disk.to_string());
        let (key, secret, salt) = state.keys.as_ref().unwrap();
        if request.message.state_disk_key != key.expose() || request.message.measurement_secret != secret.expose() {
            let message = "disk-wrong-key: the key does not open this disk; use the master secret of its cluster";
            return Err(Status::invalid_argument(message));
        }
        let cluster = ClusterId::derive(secret, salt).unwrap();
        if std::mem::take(&mut state.behaviour.bootstrap_unfinished) {
            state.stage = Stage::Fresh;
            state.cluster = None;
            state.disk = Uuid::random().unwrap();
            let message = "bootstrap-unfinished: the cluster's first bootstrap never finished";
            return Err(Status::failed_precondition(message));
        }
        Ok(RecoverResponse { cluster_id: cluster.as_bytes().to_vec() })
    }
}
