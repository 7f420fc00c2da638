//! What commands that serve have in common: they run until they are told to stop, and then finish what they began.

use anyhow::{Context, anyhow};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Outcome};
use crate::output;

/// Starts, serves until SIGTERM or Ctrl-C, and lets `drain` finish what is in flight; it says whether all of it did.
pub(super) fn until_stopped<T>(
    start: impl Future<Output = Result<T, Failure>>,
    drain: impl AsyncFnOnce(T) -> bool,
) -> Result<Outcome, Failure> {
    doing_until_stopped(start, async |_| {}, drain)
}

/// The same, with something to do as long as it serves.
pub(super) fn doing_until_stopped<T>(
    start: impl Future<Output = Result<T, Failure>>,
    meanwhile: impl AsyncFnOnce(&T),
    drain: impl AsyncFnOnce(T) -> bool,
) -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the network runtime")?;
    let outcome = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let started = tokio::select! {
            started = start => started?,
            // Reading the rules can take as long as a disk that doesn't answer, and a cluster as long as another node.
            () = told_to_stop(&mut terminate, &mut interrupt) => {
                output::note("told to stop before it served");
                return Ok(Outcome::Done);
            }
        };
        tokio::select! {
            () = told_to_stop(&mut terminate, &mut interrupt) => {}
            () = async { meanwhile(&started).await; std::future::pending().await } => {}
        }
        let finished = tokio::select! {
            finished = drain(started) => finished,
            // Whoever asks twice doesn't want to wait.
            () = told_to_stop(&mut terminate, &mut interrupt) => false,
        };
        if finished {
            return Ok(Outcome::Done);
        }
        Err(Failure::error(anyhow!("stopped before everything in flight had finished"))
            .next("give it longer with drain_seconds"))
    });
    // What is still in flight had its time; nothing may keep the process from ending.
    runtime.shutdown_background();
    outcome
}

async fn told_to_stop(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// What to do about a port that can't be bound. `flags`: of fields of the configuration that have one.
pub(super) fn bind_step(field: &str, flags: &[(&str, &str)], source: &std::io::Error) -> String {
    let Some((_, flag)) = flags.iter().find(|(named, _)| *named == field) else {
        return format!("choose another address with {field} in the configuration");
    };
    if source.kind() == std::io::ErrorKind::AddrInUse {
        return format!(
            "another process has it; choose another with {flag} 127.0.0.1:PORT (in a configuration: {field})"
        );
    }
    format!("choose another address with {flag} (in a configuration: {field})")
}
