//! Which process has a connection, by the system's own tables (Linux).

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Whether the process has the TCP connection from `local` to `remote`.
pub(super) fn owns(process: u32, local: SocketAddr, remote: SocketAddr) -> bool {
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
    inode_of(&table, local, remote).is_some_and(|inode| holds(process, inode))
}

/// The inode of the connection's socket, in the text of `/proc/net/tcp`. Connections to different ends share a local port, and
/// closed ones stay in the table for a minute: both ends have to be the ones that are looked for.
fn inode_of(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let ends = [written(local)?, written(remote)?];
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let found = fields.get(1..3)? == ends;
        found.then(|| fields.get(9)?.parse().ok()).flatten().filter(|inode| *inode != 0)
    })
}

/// As the machine's own number, which on every machine that Linux tests run on has the last byte first.
fn written(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), address.port()))
}

/// Whether the process has the socket among its open files.
fn holds(process: u32, inode: u64) -> bool {
    let name = format!("socket:[{inode}]");
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    files
        .flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_found_by_both_its_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:9C40 0100007F:1DB0 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n   \
             1: 0100007F:9C41 0100007F:1DB0 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0\n   \
             2: 0100007F:9C41 0100007F:1DB2 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0\n";
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let of = |from, to| inode_of(table, local(from), local(to));
        assert_eq!(of(40_000, 7_600), None, "one that is closed already is nobody's");
        assert_eq!(of(40_001, 7_600), Some(4_711));
        assert_eq!(of(40_001, 7_602), Some(4_712), "another connection has the same port at this end");
        assert_eq!(of(40_001, 7_603), None);
    }
}
