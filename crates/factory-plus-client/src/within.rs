//! Deadlines.

use std::time::Duration;

use smol::Timer;
use smol::future::FutureExt as _;

/// What a future gives, or `None` when it gives nothing within `limit`.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let late = async {
        Timer::after(limit).await;
        None
    };
    async { Some(future.await) }.or(late).await
}
