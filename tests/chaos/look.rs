//! What processes say about themselves, looked up again and again while a run goes on.
//!
//! Asked under load a replica may just be behind; a hash belongs to the place in the log that it was taken at.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use leasehold_tests::Http;
use leasehold_tests::cluster::Status;

use crate::history::{Event, Lent, Shard, State};
use crate::record::Record;

/// Between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1_500);

/// A process that doesn't answer by then is passed over.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Operators' doors, by the names of processes.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) nodes: Vec<(String, SocketAddr)>,
    pub(crate) edges: Vec<(String, SocketAddr)>,
}

impl Watched {
    /// Looks until it is dropped.
    pub(crate) async fn watch(self, record: Record) {
        loop {
            self.look(&record).await;
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Looks once.
    pub(crate) async fn look(&self, record: &Record) {
        let mut replicas = self.replicas().await;
        for (place, (name, admin)) in self.nodes.iter().enumerate() {
            let Some(page) = get(*admin, "/metrics").await else { continue };
            let (epoch, shards) = replicas.remove(&place).unwrap_or_default();
            let state = State { epoch, shards, lent: Some(lent(&page)), ..state(record, name, &page) };
            record.write(&Event::State(state));
        }
        for (name, admin) in &self.edges {
            if let Some(page) = get(*admin, "/metrics").await {
                record.write(&Event::State(state(record, name, &page)));
            }
        }
    }

    /// The replicas of each node, by its place, as the first node says that can.
    async fn replicas(&self) -> BTreeMap<usize, (Option<u64>, Vec<Shard>)> {
        let mut found: BTreeMap<usize, (Option<u64>, Vec<Shard>)> = BTreeMap::new();
        for (_, admin) in &self.nodes {
            let Some(text) = get(*admin, "/v1/cluster?hashes=true").await else { continue };
            let Ok(status) = serde_json::from_str::<Status>(&text) else { continue };
            for shard in &status.shards {
                for replica in &shard.group.replicas {
                    let Some(place) = status.place(replica.node) else { continue };
                    // The hash is of the state after an entry that may be newer than the other figures.
                    let hash =
                        replica.hash.as_ref().and_then(|hash| Some((hash.applied?, hash.hash.clone())));
                    let Some(applied) = hash.as_ref().map(|(applied, _)| *applied).or(replica.applied) else {
                        continue;
                    };
                    let seen = found.entry(place).or_insert((Some(status.epoch), Vec::new()));
                    seen.1.push(Shard {
                        shard: shard.shard,
                        applied,
                        hash: hash.map(|(_, hash)| hash),
                        leader: shard.group.leader == Some(replica.node),
                        term: None,
                    });
                }
            }
            break;
        }
        found
    }
}

/// The body of a page, if it was there in time.
pub(crate) async fn get(door: SocketAddr, path: &str) -> Option<String> {
    let http = Http::new(door);
    let answer = http.try_send(Method::GET, path, &[], Bytes::new());
    let reply = tokio::time::timeout(ANSWERS_WITHIN, answer).await.ok()?.ok()?;
    (reply.status == 200).then(|| reply.text())
}

fn state(record: &Record, name: &str, page: &str) -> State {
    State {
        at: record.now_ns(),
        node: name.to_owned(),
        // 0: it has none yet.
        rules_version: figure(page, "leasehold_rules_version", "").filter(|version| *version > 0),
        hops: figure(page, "leasehold_wallet_hops_total", ""),
        memory: figure(page, "process_resident_memory_bytes", ""),
        ..State::default()
    }
}

fn lent(page: &str) -> Lent {
    let units =
        |state: &str| figure(page, "leasehold_lease_units_total", &format!("state=\"{state}\"")).unwrap_or(0);
    Lent {
        granted: units("granted"),
        spent: units("spent"),
        returned: units("returned"),
        stranded: units("lapsed"),
        outstanding: figure(page, "leasehold_lease_out_units", "").unwrap_or(0),
        violations: figure(page, "leasehold_lease_violations_total", "").unwrap_or(0),
    }
}

/// The sum of a metric over those of its lines whose labels hold some text; `None` when there is no such line.
pub(crate) fn figure(page: &str, name: &str, labels: &str) -> Option<u64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let (found, value) = rest.rsplit_once(' ')?;
        let is_it = (found.is_empty() || found.starts_with('{')) && found.contains(labels);
        is_it.then(|| value.parse::<u64>().ok())?
    };
    let mut values = page.lines().filter_map(value).peekable();
    values.peek().is_some().then(|| values.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_sum_over_the_lines_that_have_the_labels() {
        let page = "# HELP x_total x\nx_total{shard=\"0\",state=\"a\"} 2\nx_total{shard=\"1\",state=\"a\"} 3\n\
                    x_total{shard=\"1\",state=\"b\"} 7\nx_totally 9\ny 4\n";
        assert_eq!(figure(page, "x_total", "state=\"a\""), Some(5));
        assert_eq!(figure(page, "x_total", ""), Some(12));
        assert_eq!(figure(page, "y", ""), Some(4));
        assert_eq!(figure(page, "z", ""), None);
    }
}
