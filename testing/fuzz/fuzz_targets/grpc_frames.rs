//! A gRPC stream, cut into chunks by the input's own bytes. However it is cut, the same messages come out.
#![no_main]

use bytes::Bytes;
use latchkey_api::grpc::frame::Deframer;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 4096;

fn read(chunks: impl Iterator<Item = Bytes>) -> (Vec<Vec<u8>>, bool) {
    let mut deframer = Deframer::new(LIMIT);
    let mut messages = Vec::new();
    for mut chunk in chunks {
        loop {
            match deframer.feed(&mut chunk) {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(_) => return (messages, false),
            }
        }
    }
    (messages, deframer.finish().is_ok())
}

fuzz_target!(|input: &[u8]| {
    let Some((&size, stream)) = input.split_first() else { return };
    let whole = read(std::iter::once(Bytes::copy_from_slice(stream)));
    let parts = read(stream.chunks(usize::from(size).max(1)).map(Bytes::copy_from_slice));
    assert_eq!(whole, parts);
    assert!(whole.0.iter().all(|message| message.len() <= LIMIT));
});
