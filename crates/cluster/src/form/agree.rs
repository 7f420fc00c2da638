//! What a node without a cluster does next, from what the seeds answered. Pure.
//!
//! Invariant: a node founds only when every seed has answered it in its present life, all say the same of the cluster, none
//! knows of a founding, and its own seed is the smallest; so at most one founding reaches a majority of the founders while a
//! majority of them keep their disks (see [`super`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use leasehold_control::{ClusterId, NodeRecord};
use leasehold_wire::peer::{FormReply, FormRequest, Founding};

/// What became of the question to one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It couldn't be asked, or said nothing that makes sense; in words.
    Nothing(String),
    /// Its answer.
    Said(FormReply),
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This node is a founder of a cluster that was founded: it agrees.
    Agree(Founding),
    /// There is a cluster: this node joins it through this seed.
    Join {
        /// The seed.
        seed: String,
        /// The cluster.
        cluster: ClusterId,
    },
    /// This node founds the cluster, with these nodes.
    Found(Vec<NodeRecord>),
    /// It asks again later; for whom it waits, in words.
    Wait(String),
}

/// What `me` does next, given what its seeds answered; seeds that are absent weren't asked yet.
pub(crate) fn next(me: &FormRequest, heard: &BTreeMap<String, Heard>) -> Step {
    if let Some(founding) = founding_of(me, heard) {
        return Step::Agree(founding);
    }
    let formed = formed(heard);
    match formed.as_slice() {
        [] => forming(me, heard),
        [(seed, cluster), others @ ..] if others.iter().all(|(_, other)| other == cluster) => {
            Step::Join { seed: seed.clone(), cluster: *cluster }
        }
        several => Step::Wait(of_several(several)),
    }
}

/// A founding that counts on this node.
fn founding_of(me: &FormRequest, heard: &BTreeMap<String, Heard>) -> Option<Founding> {
    heard.values().find_map(|heard| match heard {
        Heard::Said(FormReply::Founding(founding)) if names(founding, me) => Some(founding.clone()),
        Heard::Said(FormReply::Founding(_) | FormReply::Formed(_) | FormReply::Forming(_))
        | Heard::Nothing(_) => None,
    })
}

/// Whether a founding is of the asker's cluster and counts on it.
pub(crate) fn names(founding: &Founding, me: &FormRequest) -> bool {
    founding.name == me.cluster && founding.founders.iter().any(|founder| founder.id == me.record.id)
}

/// What a node of this identity tells one without a cluster: a founding only those it counts on.
pub(crate) fn answer(
    own: &FormRequest,
    founding: Option<&Founding>,
    cluster: Option<ClusterId>,
    asker: &FormRequest,
) -> FormReply {
    match (founding, cluster) {
        (Some(founding), _) if names(founding, asker) => FormReply::Founding(founding.clone()),
        (_, Some(cluster)) => FormReply::Formed(cluster),
        (Some(founding), None) => FormReply::Formed(founding.cluster.id),
        (None, None) => FormReply::Forming(own.clone()),
    }
}

fn formed(heard: &BTreeMap<String, Heard>) -> Vec<(String, ClusterId)> {
    let cluster = |heard: &Heard| match heard {
        Heard::Said(FormReply::Formed(cluster)) => Some(*cluster),
        Heard::Said(FormReply::Founding(founding)) => Some(founding.cluster.id),
        Heard::Said(FormReply::Forming(_)) | Heard::Nothing(_) => None,
    };
    heard.iter().filter_map(|(seed, heard)| Some((seed.clone(), cluster(heard)?))).collect()
}

fn of_several(formed: &[(String, ClusterId)]) -> String {
    let each: Vec<String> = formed.iter().map(|(seed, cluster)| format!("{seed} ({cluster})")).collect();
    format!("waiting: the seeds belong to different clusters: {}; correct `cluster.seeds`", each.join(", "))
}

/// Nobody knows of a cluster: found it, or say who is missing.
fn forming(me: &FormRequest, heard: &BTreeMap<String, Heard>) -> Step {
    let mut others: BTreeMap<&str, &FormRequest> = BTreeMap::new();
    let mut missing: Vec<String> = Vec::new();
    for seed in &me.seeds {
        match heard.get(seed) {
            None => missing.push(format!("{seed} (not asked yet)")),
            Some(Heard::Nothing(why)) => missing.push(format!("{seed} ({why})")),
            Some(Heard::Said(FormReply::Forming(other))) => match disagreement(me, other) {
                Some(says) => missing.push(format!("{seed} (says {says})")),
                None => {
                    others.insert(seed, other);
                }
            },
            // Looked at before.
            Some(Heard::Said(FormReply::Formed(_) | FormReply::Founding(_))) => {}
        }
    }
    if !missing.is_empty() {
        return Step::Wait(format!("waiting for founders: {}", missing.join(", ")));
    }
    if let Some(clash) = clash(&others) {
        return Step::Wait(format!("waiting: {clash}"));
    }
    let own = others.iter().find(|(_, other)| other.nonce == me.nonce).map(|(seed, _)| *seed);
    match (own, me.seeds.first()) {
        (Some(own), Some(first)) if own == first => {
            Step::Found(others.values().map(|other| other.record.clone()).collect())
        }
        (Some(_), Some(first)) => Step::Wait(format!("waiting for {first} to found the cluster")),
        _ => Step::Wait(
            "waiting for the seeds to form the cluster; this node isn't one of them and joins it then"
                .to_owned(),
        ),
    }
}

/// In what `other` doesn't agree with `me`.
fn disagreement(me: &FormRequest, other: &FormRequest) -> Option<String> {
    let mut says = Vec::new();
    if other.cluster != me.cluster {
        says.push(format!("cluster name {:?}", other.cluster));
    }
    if other.seeds != me.seeds {
        says.push(format!("seeds {}", list(&other.seeds)));
    }
    if other.shards != me.shards {
        says.push(format!("{} shards", other.shards));
    }
    if other.replicas != me.replicas {
        says.push(format!("{} replicas", other.replicas));
    }
    (!says.is_empty()).then(|| says.join(" and "))
}

fn list(seeds: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for (place, seed) in seeds.iter().enumerate() {
        let _ = write!(text, "{}{seed}", if place == 0 { "" } else { "," });
    }
    text
}

/// Two founders that can't both be: behind two seeds is one node, or two nodes share what has to be each one's own.
fn clash(others: &BTreeMap<&str, &FormRequest>) -> Option<String> {
    let others: Vec<(&&str, &&FormRequest)> = others.iter().collect();
    let pairs = others
        .iter()
        .enumerate()
        .flat_map(|(place, one)| others.iter().skip(place + 1).map(move |other| (*one, *other)));
    for ((seed, one), (other_seed, other)) in pairs {
        if one.nonce == other.nonce {
            return Some(format!(
                "{seed} and {other_seed} are the same node; name each founder once in `cluster.seeds`"
            ));
        }
        if one.record.id == other.record.id {
            return Some(format!(
                "{seed} and {other_seed} have the same node id {}: one data directory was copied from \
                 the other; empty one of them",
                one.record.id
            ));
        }
        if one.record.name == other.record.name {
            return Some(format!(
                "{seed} and {other_seed} are both named {:?}; give each node a name of its own",
                one.record.name
            ));
        }
        if one.record.peer_address == other.record.peer_address {
            return Some(format!(
                "{seed} and {other_seed} both tell others to reach them at {}; \
                 let each advertise its own address",
                one.record.peer_address
            ));
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests;
