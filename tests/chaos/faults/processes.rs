//! Processes that are killed, stopped, replaced and restarted in turn.

use rustix::process::Signal;

use super::nodes;
use crate::history::{Event, Fault, FaultPhase};
use crate::net::Place;
use crate::record::Record;
use crate::world::{World, name};

/// Ends them now. All of them before the first of them is looked at again.
pub(super) fn kill(world: &mut World, targets: &[Place]) -> String {
    for place in targets {
        match place {
            Place::Node(node) => world.cluster.kill(*node),
            Place::Edge(edge) => world.kill_edge(*edge),
            Place::Tester => {}
        }
    }
    "kill -9".to_owned()
}

/// Starts those that don't run.
pub(super) fn start(world: &mut World, targets: &[Place]) -> String {
    for place in targets {
        match place {
            Place::Node(node) if !world.cluster.running().contains(node) => world.cluster.restart(*node),
            Place::Edge(edge) if world.edge(*edge).is_none() => world.start_edge(*edge),
            Place::Node(_) | Place::Edge(_) | Place::Tester => {}
        }
    }
    "started".to_owned()
}

/// Stops them in the middle of whatever they do.
pub(super) fn stop(world: &mut World, targets: &[Place]) -> String {
    for place in targets {
        match place {
            Place::Node(node) => world.cluster.pause(*node),
            Place::Edge(edge) => {
                if let Some(edge) = world.edge(*edge) {
                    edge.process.pause();
                }
            }
            Place::Tester => {}
        }
    }
    "SIGSTOP".to_owned()
}

/// Lets them go on.
pub(super) fn resume(world: &mut World, targets: &[Place]) -> String {
    for place in targets {
        match place {
            Place::Node(node) => world.cluster.resume(*node),
            Place::Edge(edge) => {
                if let Some(edge) = world.edge(*edge) {
                    edge.process.signal(Signal::CONT);
                }
            }
            Place::Tester => {}
        }
    }
    "SIGCONT".to_owned()
}

/// Starts killed nodes with empty directories: they join as new ones.
pub(super) fn replace(world: &mut World, targets: &[Place]) -> String {
    for node in nodes(targets) {
        world.cluster.wipe(node);
        world.cluster.restart(node);
    }
    "with an empty directory".to_owned()
}

/// Stops every node in order, starts it again and waits until it serves, one after the other.
pub(super) async fn rolling_restart(world: &mut World, record: &Record) -> String {
    let mut unclean = Vec::new();
    for node in world.cluster.running() {
        let write = |phase, note: String| {
            let (name, target) = ("restart".to_owned(), name(Place::Node(node)));
            record.write(&Event::Fault(Fault {
                at: record.now_ns(),
                name,
                target,
                phase,
                note,
                ..Fault::default()
            }));
        };
        write(FaultPhase::Begin, "SIGTERM".to_owned());
        let status = world.cluster.stop(node).await;
        if !status.success() {
            unclean.push(format!("node-{node}: {status}"));
        }
        world.cluster.restart(node);
        world.cluster.wait_until_ready(node).await;
        write(FaultPhase::End, String::new());
    }
    if unclean.is_empty() { "all ended in order".to_owned() } else { unclean.join("; ") }
}
