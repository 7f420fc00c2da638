//! Which process has a connection, by the system's own tables (Linux).

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Whether the process has a TCP socket of this local address.
pub(super) fn owns(process: u32, address: SocketAddr) -> bool {
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
    inode_of(&table, address).is_some_and(|inode| holds(process, inode))
}

/// The inode of the socket with this local address, in the text of `/proc/net/tcp`.
fn inode_of(table: &str, address: SocketAddr) -> Option<u64> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    // Written as the machine's own number, which on every machine that Linux tests run on has the last byte first.
    let local = format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), address.port());
    let line = table.lines().skip(1).find(|line| line.split_whitespace().nth(1) == Some(local.as_str()))?;
    line.split_whitespace().nth(9)?.parse().ok().filter(|inode| *inode != 0)
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
    fn a_socket_is_found_by_its_local_address() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1DB0 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0\n   \
             1: 0100007F:9C40 0100007F:1DB0 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n";
        let of = |port| inode_of(table, SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(of(7_600), Some(4_711));
        assert_eq!(of(40_000), None, "one that is closed already is nobody's");
        assert_eq!(of(7_601), None);
    }
}
