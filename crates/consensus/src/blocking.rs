//! Calls that block on the disk, kept off the threads that serve.
//!
//! Invariant: what is called runs to its end, whoever stops waiting. A simulation is one thread, so there it runs at once.

use tokio::task::JoinError;

/// Runs what blocks.
///
/// # Errors
/// When it panicked.
#[cfg(not(feature = "simulated"))]
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(call).await
}

#[cfg(feature = "simulated")]
pub(crate) async fn blocking<T>(call: impl FnOnce() -> T) -> Result<T, JoinError> {
    std::future::ready(Ok(call())).await
}
