//! Answers have a time and a size: kube waits for the beginning of one as long as there is a connection, and collects a body as long as
//! it is sent. So both are bounded before kube sees them.

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use kube::client::Body as RequestBody;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use tower::{BoxError, Layer, Service};

/// The largest answer to a single question: a page of [`crate::PAGE`] records, each of the largest size.
const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// The largest event of a watch: one object, twice its largest size.
const MAX_EVENT: usize = 4 * 1024 * 1024;

/// Until an answer begins, that of a watch as well: one that is swallowed on the way would be waited for without end.
const BEGINS: Duration = Duration::from_secs(5);

/// An answer began, and is none; or it does not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// Nothing came in time.
    #[error("no answer within {} s", BEGINS.as_secs())]
    Late,
    /// The API server sends more than any answer has; the limit in bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// It ends before its end.
    #[error("the answer is cut off")]
    CutOff(#[source] BoxError),
}

/// Bounds every answer of the service below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundAnswers;

impl<S> Layer<S> for BoundAnswers {
    type Service = BoundedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BoundedService(inner)
    }
}

/// See [`BoundAnswers`].
#[derive(Debug)]
pub(crate) struct BoundedService<S>(S);

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<S, B> Service<Request<RequestBody>> for BoundedService<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Bounded<B>>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let limit = if query.split('&').any(|field| field == "watch=true") {
            Limit::PerLine { most: MAX_EVENT, line: 0 }
        } else {
            Limit::Total { most: MAX_ANSWER, read: 0 }
        };
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = timeout(BEGINS, answer).await.map_err(|_| AnswerError::Late)?.map_err(Into::into)?;
            Ok(answer.map(|inner| Bounded { inner, limit }))
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    Total {
        most: usize,
        read: usize,
    },
    /// A watch has no end; an event of it is a line.
    PerLine {
        most: usize,
        line: usize,
    },
}

impl Limit {
    fn count(&mut self, data: &[u8]) -> Result<(), AnswerError> {
        let (most, count) = match self {
            Self::Total { most, read } => {
                *read = read.saturating_add(data.len());
                (*most, *read)
            }
            Self::PerLine { most, line } => {
                let mut parts = data.split(|byte| *byte == b'\n');
                let first = parts.next().map_or(0, <[u8]>::len);
                let longest = line.saturating_add(first);
                *line = parts.next_back().map_or(longest, <[u8]>::len);
                // Lines that lie within one frame are no longer than the frame, which hyper bounds.
                (*most, longest.max(*line))
            }
        };
        if count > most { Err(AnswerError::TooLarge(most)) } else { Ok(()) }
    }
}

/// A body that ends with an error where it is too large.
#[derive(Debug)]
pub(crate) struct Bounded<B> {
    inner: B,
    limit: Limit,
}

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => {
                return Poll::Ready(Some(Err(AnswerError::CutOff(error.into()).into())));
            }
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        if let Some(data) = frame.data_ref()
            && let Err(error) = self.limit.count(data)
        {
            return Poll::Ready(Some(Err(error.into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_answer_has_a_size() {
        let mut limit = Limit::Total { most: 10, read: 0 };
        assert!(limit.count(b"12345\n").is_ok());
        assert!(limit.count(b"1234").is_ok());
        assert!(limit.count(b"5").is_err());
    }

    #[test]
    fn a_watch_goes_on_as_long_as_its_lines_end() {
        let mut limit = Limit::PerLine { most: 10, line: 0 };
        for _ in 0..100 {
            assert!(limit.count(b"12345678\n").is_ok());
        }
        assert!(limit.count(b"123456\n12345").is_ok());
        assert!(limit.count(b"67890").is_ok(), "ten bytes of this line");
        assert!(limit.count(b"1").is_err());
    }
}
