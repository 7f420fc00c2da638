//! What the whole-product tests share: processes that end with their test, a node or a cluster of them to talk to, clients and
//! loads, and a judge of what was admitted.
//!
//! Everything listens on the loopback, mostly on an address of it that belongs to the test process. Every wait has a deadline, and what a
//! process printed is shown when a test fails. Nothing here knows how a limit is decided.

pub mod binary;
pub mod bound;
pub mod clock;
pub mod cluster;
pub mod disk;
pub mod edge;
pub mod example;
pub mod faketime;
pub mod http;
pub mod links;
pub mod load;
pub mod node;
pub mod ports;
pub mod process;
pub mod require;
pub mod seat;
pub mod upstream;

pub use clock::{Deadline, Timeline};
pub use cluster::TestCluster;
pub use disk::SmallDisk;
pub use edge::TestEdge;
pub use http::{Http, Reply};
pub use links::Links;
pub use load::Load;
pub use node::TestNode;
pub use ports::{localhost_port, own_port};
pub use process::Process;
pub use require::{is_required, require};
pub use seat::Seat;
pub use upstream::Upstream;
