//! Runs a stream's work at once on its connection's task, and spawns only what has to wait.

use std::task::{Context, Waker};

use hyper::rt::Executor;

/// Polls a future once where it is handed in; spawns it when it isn't done by then.
///
/// A check that needs no waiting is answered without a task of its own: by the time hyper hands a stream in, it has read
/// all that the socket held, a small request's body included. The answer is written when the connection is polled next,
/// together with its neighbours'.
#[derive(Clone, Copy, Debug)]
pub(super) struct InlineFirst;

impl<F> Executor<F> for InlineFirst
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let mut future = Box::pin(future);
        // Whatever the first poll registers is replaced by the first poll on the new task.
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(future);
        }
    }
}
