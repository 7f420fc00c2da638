//! Ports for servers that stop and come back: below those that the system gives to outgoing connections, so that nobody
//! takes one while its server is down.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first of them.
const FIRST: u16 = 10_240;
/// As many there are; Linux gives outgoing connections those from 32768 on.
const COUNT: u16 = 22_000;

/// A port of the loopback that is free for TCP and UDP and stays so for the tests of this process.
///
/// # Panics
/// When the system has no free port there.
#[must_use]
pub fn lasting_port() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test processes that run at once begin at different places.
    let begin = u16::try_from(std::process::id() % 1_000).expect("below 1000") * 22;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + begin.wrapping_add(step) % COUNT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port of {FIRST}..{} is free", FIRST + COUNT);
}
