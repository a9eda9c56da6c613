//! The certificate by which this service is known to the API server: nodes wait once it has ended, so its end is told in time.

use latchkey_attesting_service::clock::unix;
use latchkey_attesting_service::ending::soon;
use latchkey_kubernetes_store::KubernetesStore;
use std::sync::Arc;
use std::time::Duration;

/// How often the log says it.
const AGAIN: Duration = Duration::from_hours(24);

/// What is to be said of a certificate that ends then: nothing before it ends soon.
pub(crate) fn note(ends: Option<u64>) -> Option<String> {
    note_at(ends?, unix())
}

fn note_at(ends: u64, now: u64) -> Option<String> {
    let when = soon(ends, now)?;
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
    fn a_certificate_that_ends_soon_is_spoken_of_and_a_token_has_none() {
        let now = 1_800_000_000;
        let soon = note_at(now + 1, now).unwrap();
        assert!(soon.contains("ends in 0 days") && soon.contains("latchkey credentials join-service"), "{soon}");
        assert_eq!(note(None), None);
    }
}
