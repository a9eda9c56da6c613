//! What generated servers and their implementations see of a call.

use crate::grpc::{
    frame::{self, Message, TooLargeToSend},
    status::Status,
};
use bytes::Bytes;
use smol::channel::{Receiver, Sender, bounded};
use std::{fmt, future::Future, marker::PhantomData, pin::Pin, sync::Arc, time::Instant};

/// A service that can be added to a [`super::Server`]. Implemented by the generated `…Server` types.
pub trait Service<C>: Send + Sync + 'static {
    /// Full name, e.g. `latchkey.v1.Keys`.
    fn name(&self) -> &'static str;

    /// Names of its methods, e.g. `GetDataKey`.
    fn methods(&self) -> &'static [&'static str];

    /// Starts a method's handler.
    ///
    /// # Errors
    /// INTERNAL if the request does not decode, UNIMPLEMENTED for a method it does not have.
    fn start(&self, method: &str, inbound: Inbound<C>) -> Result<Running, Status>;
}

/// A request, as a handler gets it.
#[derive(Debug)]
pub struct Request<C, M> {
    /// What the message says.
    pub message: M,
    /// What is known about the connection it came on.
    pub context: Arc<C>,
    /// When the caller, or the server's own limit, gives up. The handler is dropped then; no need to watch it.
    pub deadline: Option<Instant>,
}

/// A request whose method is known and whose message is still bytes.
pub struct Inbound<C> {
    pub(super) message: Message,
    pub(super) context: Arc<C>,
    pub(super) deadline: Option<Instant>,
    /// Largest reply, in bytes.
    pub(super) reply_limit: usize,
}

impl<C> fmt::Debug for Inbound<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

type Handler = Pin<Box<dyn Future<Output = Result<Option<Bytes>, Status>> + Send>>;

/// A handler at work.
pub struct Running {
    /// Ends with the last reply, if the method is unary.
    pub(super) handler: Handler,
    /// The other replies, framed.
    pub(super) replies: Option<Pin<Box<Receiver<Bytes>>>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("streams", &self.replies.is_some()).finish_non_exhaustive()
    }
}

impl<C> Inbound<C> {
    /// Starts the handler of a unary method.
    ///
    /// # Errors
    /// INTERNAL if the message does not decode.
    pub fn unary<Req, Res, F>(self, handler: impl FnOnce(Request<C, Req>) -> F) -> Result<Running, Status>
    where
        Req: prost::Message + Default,
        Res: prost::Message,
        F: Future<Output = Result<Res, Status>> + Send + 'static,
    {
        let limit = self.reply_limit;
        let work = handler(self.decode()?);
        let handler = async move { encode(&work.await?, limit).map(Some) };
        Ok(Running { handler: Box::pin(handler), replies: None })
    }

    /// Starts the handler of a server-streaming method.
    ///
    /// # Errors
    /// INTERNAL if the message does not decode.
    pub fn server_streaming<Req, Res, F>(
        self,
        handler: impl FnOnce(Request<C, Req>, Replies<Res>) -> F,
    ) -> Result<Running, Status>
    where
        Req: prost::Message + Default,
        Res: prost::Message,
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let (sender, receiver) = bounded(1);
        let replies = Replies { sender, limit: self.reply_limit, message: PhantomData };
        let work = handler(self.decode()?, replies);
        let handler = async move { work.await.map(|()| None) };
        Ok(Running { handler: Box::pin(handler), replies: Some(Box::pin(receiver)) })
    }

    fn decode<Req: prost::Message + Default>(self) -> Result<Request<C, Req>, Status> {
        // "Error parsing request proto: INTERNAL" (gRPC, doc/statuscodes.md).
        let message = Req::decode(self.message.as_slice())
            .map_err(|error| Status::internal(format!("the request does not decode: {error}")))?;
        Ok(Request { message, context: self.context, deadline: self.deadline })
    }
}

/// Where the handler of a server-streaming method puts its replies. The stream ends when the handler returns.
pub struct Replies<M> {
    sender: Sender<Bytes>,
    limit: usize,
    message: PhantomData<fn(M)>,
}

impl<M> fmt::Debug for Replies<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replies").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<M: prost::Message> Replies<M> {
    /// Sends one reply; waits while the caller does not take earlier ones.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the reply exceeds the server's limit, CANCELLED if the call is over.
    pub async fn send(&mut self, reply: &M) -> Result<(), Status> {
        let reply = encode(reply, self.limit)?;
        self.sender.send(reply).await.map_err(|_| Status::cancelled("the call is over"))
    }
}

fn encode<M: prost::Message>(reply: &M, limit: usize) -> Result<Bytes, Status> {
    frame::encode(reply, limit).map_err(|TooLargeToSend { length, limit }| {
        Status::resource_exhausted(format!("a reply of {length} bytes exceeds the limit of {limit}"))
    })
}
