//! An edge in each region of a cluster in this process, with doors of its own, that leases from its region's nodes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::anyhow;
use leasehold_client::stream::Address;
use leasehold_edge::config::Flags;
use leasehold_edge::{Config, Edge};
use leasehold_node::Node;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::cluster::{Seat, offset};
use crate::commands::edge::not_started;
use crate::failure::Failure;
use crate::output::{table, text};

/// An edge's doors, counted from the first node of its region: between that node's and the next one's.
const FROM_CLIENTS: u16 = 5;
const FROM_ADMIN: u16 = 4;
/// How long nodes of this process may take to hand their rules to an edge.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A running edge.
pub(super) struct Beside {
    pub(super) region: String,
    pub(super) edge: Edge,
    /// Where it serves clients.
    pub(super) clients: SocketAddr,
}

/// Where the edges' doors are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doors {
    /// The first node's, for clients.
    pub(super) http: SocketAddr,
    /// The same for operators.
    pub(super) admin: SocketAddr,
}

impl Doors {
    /// Those of the edge beside the node at a place. Port 0 is any.
    fn beside(self, node: u16) -> Result<Self, Failure> {
        let moved = |mut addr: SocketAddr, more| {
            if addr.port() != 0 {
                addr.set_port(offset(addr.port(), node, more)?);
            }
            Ok::<_, Failure>(addr)
        };
        Ok(Self { http: moved(self.http, FROM_CLIENTS)?, admin: moved(self.admin, FROM_ADMIN)? })
    }
}

/// Starts one for each region, and waits until each has its rules.
pub(super) async fn start(doors: Doors, seats: &[Seat], nodes: &[Node]) -> Result<Vec<Beside>, Failure> {
    let mut edges: Vec<Beside> = Vec::new();
    for (place, seat) in (0..).zip(seats) {
        let Some(region) = &seat.region else { continue };
        if edges.iter().any(|beside| beside.region == *region) {
            continue;
        }
        let of_region = seats.iter().zip(nodes).filter(|(seat, _)| seat.region.as_ref() == Some(region));
        let upstreams = of_region.map(|(_, node)| Address::Tcp(node.client_addr().to_string())).collect();
        let doors = doors.beside(place)?;
        let config = Config::default().with(Flags {
            upstreams,
            name: Some(name(region)),
            http: Some(doors.http),
            unix: None,
            admin: Some(doors.admin),
        });
        let edge = Edge::start(config.map_err(|message| Failure::usage(anyhow!(message)))?);
        let edge = edge.await.map_err(not_started)?;
        let clients = edge.clients_addr().unwrap_or(doors.http);
        edges.push(Beside { region: region.clone(), edge, clients });
    }
    let waiting = || edges.iter().filter_map(|beside| beside.edge.not_ready()).collect::<Vec<_>>();
    let ready = async {
        while !waiting().is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(READY_WITHIN, ready)
        .await
        .map_err(|_| Failure::error(anyhow!("the edges are not ready: {}", waiting().join("; "))))?;
    Ok(edges)
}

fn name(region: &str) -> String {
    format!("{region}-edge")
}

/// Where they serve.
pub(super) fn listed(edges: &[Beside]) -> String {
    let columns = [text("region"), text("edge"), text("clients"), text("operators")];
    let rows = edges.iter().map(|Beside { region, edge, clients }| {
        vec![
            region.clone(),
            name(region),
            format!("http://{clients}"),
            format!("http://{}", edge.admin_addr()),
        ]
    });
    table(&columns, rows)
}

/// Drains all at once; whether each handed back what it held.
pub(super) async fn drain(edges: Vec<Beside>) -> bool {
    let mut draining: JoinSet<bool> = edges.into_iter().map(|beside| beside.edge.drain()).collect();
    let mut finished = true;
    while let Some(drained) = draining.join_next().await {
        finished &= drained.unwrap_or(false);
    }
    finished
}
