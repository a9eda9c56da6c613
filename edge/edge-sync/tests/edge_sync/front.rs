//! What stands between Edge Sync and the configuration database: it counts tokens, refuses them, and says other times.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchkey_api_server_rig::gate::{Passing, Way};

pub(crate) struct Front {
    pub(crate) way: Way,
    tokens: Arc<Tokens>,
}

/// What is done to tokens.
#[derive(Default)]
struct Tokens {
    end_in: Mutex<Option<Duration>>,
    refused: AtomicBool,
    given: AtomicUsize,
}

impl Front {
    pub(crate) fn before(server: SocketAddr) -> Self {
        let tokens = Arc::new(Tokens::default());
        Self { way: Way::to(server, Arc::clone(&tokens)), tokens }
    }

    /// How often a token was asked for.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens.given.load(SeqCst)
    }

    /// Tokens are said to end so long from now.
    pub(crate) fn say_tokens_end_in(&self, time: Duration) {
        *self.tokens.end_in.lock().unwrap() = Some(time);
    }

    /// Whether each token is refused, once it is given.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.tokens.refused.store(refuses, SeqCst);
    }
}

impl Passing for Tokens {
    fn asked(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.starts_with(b"POST /token") {
            self.given.fetch_add(1, SeqCst);
            return None;
        }
        let refusal = b"HTTP/1.1 401 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        self.refused.load(SeqCst).then(|| refusal.to_vec())
    }

    /// Writes another end over that of a token, where there is one: it has as many digits for some centuries.
    fn answered(&self, bytes: &mut [u8]) {
        const FIELD: &[u8] = b"\"expiry\":";
        let Some(end_in) = *self.end_in.lock().unwrap() else { return };
        let Some(start) = bytes.windows(FIELD.len()).position(|window| window == FIELD) else { return };
        let digits = &mut bytes[start + FIELD.len()..];
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + end_in;
        let end = end.as_millis().to_string();
        assert!(digits[..end.len()].iter().all(u8::is_ascii_digit) && !digits[end.len()].is_ascii_digit());
        digits[..end.len()].copy_from_slice(end.as_bytes());
    }
}
