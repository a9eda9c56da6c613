//! What the requests of one connection share.

use crate::connection::pace::Pace;
use hyper::upgrade::OnUpgrade;
use latchkey_service_runtime::connections::Shown;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Link {
    pub(crate) peer: SocketAddr,
    pub(crate) pace: Arc<Pace>,
    shown: Shown,
    admitted: AtomicBool,
    unread: AtomicBool,
    upgrade: Mutex<Option<(OnUpgrade, Arc<str>)>>,
}

impl Link {
    pub(crate) fn new(peer: SocketAddr, pace: Arc<Pace>, shown: Shown) -> Self {
        let no = || AtomicBool::new(false);
        Self { peer, pace, shown, admitted: no(), unread: no(), upgrade: Mutex::default() }
    }

    /// Somebody was authenticated: the connection keeps its slot.
    pub(crate) fn admitted(&self) {
        if !self.admitted.swap(true, Relaxed) {
            self.shown.admitted();
        }
    }

    /// The connection ends with bytes that nobody reads.
    pub(crate) fn leave_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    pub(crate) fn left_unread(&self) -> bool {
        self.unread.load(Relaxed)
    }

    pub(crate) fn keep_upgrade(&self, upgrade: OnUpgrade, id: Arc<str>) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, id));
    }

    pub(crate) fn take_upgrade(&self) -> Option<(OnUpgrade, Arc<str>)> {
        self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
