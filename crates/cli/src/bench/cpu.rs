//! Processor time of a process, all its threads, from `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// Length of a kernel tick as `/proc` reports it: USER_HZ is 100 on every Linux, whatever the kernel's own tick.
const TICK: Duration = Duration::from_millis(10);

/// Processor time that a process has used since it started, user and system.
///
/// # Errors
/// No such process, or one that may not be looked at.
pub(crate) fn used_by(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat =
        std::fs::read_to_string(&path).with_context(|| format!("--cpu-of {pid}: cannot read {path}"))?;
    parse(&stat).with_context(|| format!("--cpu-of {pid}: {path} is not understood"))
}

/// Fields 14 and 15, counted after the name, which may hold spaces and parentheses.
pub(super) fn parse(stat: &str) -> Option<Duration> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * user.checked_add(system)?)
}
