//! MQTT 3.1.1 over TLS: frames, and the stream that carries them.

mod frame;
mod stream;
mod url;

pub use frame::{FrameError, Frames, MAX_PACKET, encode};
pub use stream::{OpenError, Route, Stream, open};
pub use url::{BrokerUrl, BrokerUrlError};
