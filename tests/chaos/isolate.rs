//! Namespaces for a whole harness: processes, network and mounts that the kernel takes away with it, however it ends.
//!
//! The program starts itself again inside, and waits. Inside it is the first process: when it ends, or is killed, all that it
//! started is killed, its network is gone and nothing stays mounted. The temporary folder is the outer one's, which removes it.
//! Where namespaces can't be made nothing of this happens, and runs use the loopback.

use std::env;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use leasehold_tests::binary::leasehold;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Says that this is the one inside.
const INSIDE: &str = "LEASEHOLD_CHAOS_INSIDE";

/// New namespaces, and the end of whoever made them is the end of all inside. Behind `setpriv`.
const UNSHARE: &[&str] = &[
    "--pdeathsig",
    "KILL",
    "unshare",
    "--net",
    "--pid",
    "--mount",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// Before whatever else the machine does: processes that wait for a processor for seconds are the scheduler's trouble, not one
/// that a scenario made.
const BEFORE_OTHERS: &[&str] = &["chrt", "--rr", "1"];

/// Who was told to stop ends its processes and writes down what it knows; then it is killed.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// Whether this process has namespaces of its own.
pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Whether namespaces can be made here, and a device for the network in them.
fn can_isolate() -> bool {
    let try_it = "ip link set lo up && ip tuntap add mode tun name probe && nsenter --version";
    let tried = Command::new("setpriv")
        .args(UNSHARE)
        .args(["sh", "-c", try_it])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// Whether processes may be scheduled before others.
fn can_go_first() -> bool {
    let (program, rest) = BEFORE_OTHERS.split_first().expect("it names a program");
    let tried = Command::new(program).args(rest).arg("true").stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// Runs this program again inside, where that can be done, with a binary that is given or the one that was built. `None`: it
/// can't, or this is the one inside; go on.
///
/// # Errors
/// When it can't be started or waited for.
pub(crate) fn enter(binary: Option<&Path>) -> io::Result<Option<ExitCode>> {
    if is_inside() || !can_isolate() {
        return Ok(None);
    }
    let temporary = tempfile::tempdir()?;
    let mut command = Command::new("setpriv");
    command
        .args(UNSHARE)
        .args(if can_go_first() { BEFORE_OTHERS } else { &[] })
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1));
    // Built outside: there is no other network inside than a run's own.
    command
        .env(INSIDE, "1")
        .env("TMPDIR", temporary.path())
        .env("LEASEHOLD_BIN", binary.unwrap_or_else(|| leasehold()));
    let status = wait(command)?;
    Ok(Some(match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => ExitCode::from(code),
        // As shells say it.
        None => {
            ExitCode::from(128 + status.signal().and_then(|signal| u8::try_from(signal).ok()).unwrap_or(0))
        }
    }))
}

/// Waits for it, and tells the one inside to stop when this one is told to.
fn wait(command: Command) -> io::Result<std::process::ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut command = tokio::process::Command::from(command);
        let mut child = command.spawn()?;
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            status = child.wait() => return status,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if let Some(inside) = child.id().and_then(child_of) {
            // It may have been told already, as everybody in the foreground is.
            let _ = kill_process(inside, Signal::TERM);
        }
        match tokio::time::timeout(STOPS_WITHIN, child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                child.start_kill()?;
                child.wait().await
            }
        }
    })
}

/// The only child of a process.
fn child_of(parent: u32) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok().and_then(Pid::from_raw)
}
