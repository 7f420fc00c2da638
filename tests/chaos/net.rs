//! What lies between the processes of a run: the loopback with proxies that can be cut, or namespaces with a network of our own.
//!
//! In namespaces every packet passes through a [`Switch`], which can lose, hold back, repeat and cut any way. On the
//! loopback only ways can be cut: the connections between peers and those of edges go through [`Links`].

pub(crate) mod switch;

use std::time::Duration;

use leasehold_tests::Links;

use switch::Switch;

/// One end of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The harness itself. Nothing cuts it off: what the tester sees is never the tester's own trouble.
    Tester,
    /// A node, by its place in the cluster.
    Node(usize),
    /// An edge.
    Edge(usize),
}

/// How packets fare from one place to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// Nothing arrives.
    pub(crate) cut: bool,
    /// So many of a hundred are lost.
    pub(crate) loss_percent: u8,
    /// So many of a hundred arrive twice.
    pub(crate) duplicate_percent: u8,
    /// So many of a hundred take three times as long as the others, and arrive behind later ones.
    pub(crate) reorder_percent: u8,
    /// Each takes so long.
    pub(crate) delay: Duration,
    /// And up to so much longer.
    pub(crate) jitter: Duration,
}

/// See the module.
#[derive(Debug)]
pub(crate) enum Net {
    /// Proxies between peers are the cluster's own; these are in front of the nodes' doors for clients, for edges. There
    /// nodes come first, then edges.
    Loopback {
        /// In front of doors for clients.
        doors: Links,
        /// Where edges reach nodes by them.
        through: Vec<std::net::SocketAddr>,
        /// How many nodes there are.
        nodes: usize,
    },
    /// All packets of all namespaces.
    Namespaces(Switch),
}

impl Net {
    /// Cuts the way from one place to another. `peers`: the proxies between nodes, where there are any.
    pub(crate) fn cut(&self, peers: Option<&Links>, from: Place, to: Place) {
        match self {
            Self::Namespaces(switch) => switch.change(from, to, |way| way.cut = true),
            Self::Loopback { doors, nodes, .. } => {
                let door = |place| match place {
                    Place::Tester => None,
                    Place::Node(node) => Some(node),
                    Place::Edge(edge) => Some(nodes + edge),
                };
                match (from, to, peers) {
                    (Place::Node(from), Place::Node(to), Some(peers)) => peers.cut_one_way(from, to),
                    _ => {
                        if let (Some(from), Some(to)) = (door(from), door(to)) {
                            doors.cut_one_way(from, to);
                        }
                    }
                }
            }
        }
    }

    /// Ends every cut.
    pub(crate) fn join_all(&self, peers: Option<&Links>) {
        match self {
            Self::Namespaces(switch) => switch.change_all(|way| way.cut = false),
            Self::Loopback { doors, .. } => {
                for links in [Some(doors), peers].into_iter().flatten() {
                    links.drop_cut();
                    links.heal();
                }
            }
        }
    }

    /// The switch, where there is one.
    pub(crate) fn switch(&self) -> Option<&Switch> {
        match self {
            Self::Namespaces(switch) => Some(switch),
            Self::Loopback { .. } => None,
        }
    }
}
