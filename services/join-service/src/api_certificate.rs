//! The certificate by which this service is known to the API server: nodes wait once it has ended, so its end is told in time.

use crate::clock::unix;
use latchkey_cluster_store::certificate::SOON;
use latchkey_kubernetes_store::KubernetesStore;
use std::sync::Arc;
use std::time::Duration;

/// How often the log says it.
const AGAIN: Duration = Duration::from_hours(24);
const DAY: u64 = 24 * 60 * 60;

/// What is to be said of a certificate that ends then: nothing before it ends soon.
pub(crate) fn note(ends: Option<u64>) -> Option<String> {
    note_at(ends?, unix())
}

fn note_at(ends: u64, now: u64) -> Option<String> {
    let when = match ends.checked_sub(now) {
        None => "has ended".to_owned(),
        Some(left) if left < SOON => format!("ends in {} days", left / DAY),
        Some(_) => return None,
    };
    Some(format!(
        "api-certificate-ends: the certificate by which this service is known to the API server {when}: get another with \
         `latchkey credentials join-service`, and restart this service"
    ))
}

/// Says it in the log, once a day.
pub(crate) async fn tell(api: Arc<KubernetesStore>) {
    loop {
        if let Some(note) = note(api.certificate_ends()) {
            tracing::warn!(note, "The service's own certificate needs to be renewed");
        }
        smol::Timer::after(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_spoken_of_in_its_last_thirty_days_and_after_its_end() {
        let now = 1_800_000_000;
        assert_eq!(note_at(now + 30 * DAY, now), None);
        let soon = note_at(now + 30 * DAY - 1, now).unwrap();
        assert!(soon.contains("ends in 29 days") && soon.contains("latchkey credentials join-service"), "{soon}");
        assert!(note_at(now, now).unwrap().contains("ends in 0 days"));
        assert!(note_at(now - 1, now).unwrap().contains("has ended"));
        assert_eq!(note(None), None, "a token has none");
    }
}
