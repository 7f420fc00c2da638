//! What the system says of this process. Where there is no `/proc`, nothing.

use std::fs;

pub(super) struct Usage {
    pub(super) resident_bytes: u64,
    pub(super) open_fds: u64,
}

pub(super) fn usage() -> Option<Usage> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    let open_fds = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(Usage { resident_bytes: kib.saturating_mul(1_024), open_fds: u64::try_from(open_fds).ok()? })
}
