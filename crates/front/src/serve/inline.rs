//! Runs a stream's work at once on its connection's task, and spawns only what has to wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

use hyper::rt::Executor;

/// Polls a future once where it is handed in; spawns it when it isn't done by then.
///
/// A check that needs no waiting is answered without a task of its own: by the time hyper hands a stream in, it has read
/// all that the socket held, a small request's body included. The answer is written when the connection is polled next,
/// together with its neighbours'.
///
/// A panic ends its own stream only, as it would on a task of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct InlineFirst;

impl<F> Executor<F> for InlineFirst
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let mut future = Box::pin(future);
        // Whatever the first poll registers is replaced by the first poll on the new task.
        let mut context = Context::from_waker(Waker::noop());
        // The future is dropped after a panic and never looked at again.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(())) => {}
            Ok(Poll::Pending) => drop(tokio::spawn(future)),
            Err(_) => tracing::error!("a request's handler panicked; its stream is reset"),
        }
    }
}
