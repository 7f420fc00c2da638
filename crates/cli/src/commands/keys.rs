//! `leasehold keys`: which keys nodes are asked for most often.

use clap::Subcommand;
use leasehold_wire::duration;
use leasehold_wire::proto::leasehold::v1 as pb;
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format, count, number, table, text};
use crate::remote::AdminServer;

/// Digits of a key's hash that a table shows: enough to tell rows apart. JSON has all 32.
const DIGITS: usize = 8;

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the keys that all nodes together were asked for most often in the last minute or two, from a sample of requests.
    Top(TopArgs),
}

/// Arguments of `leasehold keys top`.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Only keys of this domain.
    #[arg(long)]
    domain: Option<String>,
    /// How many to list, at most 1000.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    limit: u32,
    /// Show whose keys they are, where the node keeps that (admin.show_key_values), instead of hashes.
    #[arg(long)]
    show_values: bool,
    /// Only what the node was asked that answers.
    #[arg(long)]
    this_node: bool,
    #[command(flatten)]
    server: AdminServer,
}

/// Runs the command.
pub(super) fn run(command: &Command, format: Format) -> Result<Outcome, Failure> {
    let Command::Top(args) = command;
    let request = pb::TopKeysRequest {
        domain: args.domain.clone().unwrap_or_default(),
        limit: args.limit,
        show_values: args.show_values,
        this_node: args.this_node,
    };
    let told = args.server.ask(request, async |client, request| client.top_keys(request).await)?;
    match format {
        Format::Json => output::json(&as_json(&told, args.show_values)),
        Format::Table | Format::Svg => output::raw(&as_text(&told, args.show_values)),
    }
    Ok(Outcome::Done)
}

fn as_text(told: &pb::TopKeysResponse, show_values: bool) -> String {
    let window = told.window.and_then(|window| duration::from_proto(window).ok()).unwrap_or_default();
    let place = match told.nodes {
        0 | 1 => "this node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    let looked_at = format!(
        "in the last {}, at {place}, from one request in {}",
        output::duration(window.0),
        told.sampled_one_in
    );
    let missing = match &*told.nodes_unanswered {
        [] => String::new(),
        silent => format!("missing, as they did not answer: {}\n", output::visible(&silent.join(", "))),
    };
    if told.keys.is_empty() {
        return format!("no key was seen {looked_at}\n{missing}");
    }
    let columns = [
        text("domain"),
        text("rule"),
        text("key"),
        number("requests"),
        number("error"),
        number("refused"),
        number("share"),
    ];
    let rows = told.keys.iter().map(|key| {
        vec![
            key.domain.clone(),
            key.rule.clone(),
            if show_values { values(key) } else { key.key.chars().take(DIGITS).collect() },
            count(key.requests),
            count(key.error),
            count(key.refused),
            share(key),
        ]
    });
    let unlisted = told.keys.iter().map(|key| key.unlisted_max).max().unwrap_or_default();
    format!(
        "{}{looked_at}\nrequests may be too high by the error; a key that isn't tracked had {} at most\n{missing}",
        table(&columns, rows),
        count(unlisted)
    )
}

fn values(key: &pb::TopKey) -> String {
    if key.values.is_empty() {
        return "(all)".to_owned();
    }
    let pairs = key.values.iter().map(|pair| format!("{}={}", pair.name, pair.value));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Of its rule's requests.
fn share(key: &pb::TopKey) -> String {
    let percent = key.requests.saturating_mul(100) / key.rule_requests.max(1);
    format!("{percent}%")
}

/// In the shape of `GET /v1/keys/top`.
fn as_json(told: &pb::TopKeysResponse, show_values: bool) -> Value {
    let keys = told.keys.iter().map(|key| {
        let values = key.values.iter().map(|pair| (pair.name.clone(), Value::from(pair.value.as_str())));
        json!({
            "domain": key.domain,
            "rule": key.rule,
            "key": key.key,
            "values": show_values.then(|| values.collect::<Map<_, _>>()),
            "requests": key.requests,
            "error": key.error,
            "refused": key.refused,
            "rule_requests": key.rule_requests,
            "unlisted_max": key.unlisted_max,
        })
    });
    let window = told.window.and_then(|window| duration::from_proto(window).ok()).unwrap_or_default();
    json!({
        "keys": keys.collect::<Vec<_>>(),
        "window_ms": window.millis_ceil(),
        "sampled_one_in": told.sampled_one_in,
        "nodes": told.nodes,
        "nodes_unanswered": told.nodes_unanswered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> pb::TopKeysResponse {
        let pair = |name: &str, value: &str| pb::KeyValue { name: name.to_owned(), value: value.to_owned() };
        let key = pb::TopKey {
            domain: "checkout".to_owned(),
            rule: "per-user".to_owned(),
            key: "00112233445566778899aabbccddeeff".to_owned(),
            values: vec![pair("user", "ann"), pair("zone", "\x1b[2J")],
            requests: 64_000,
            error: 640,
            refused: 1_280,
            rule_requests: 128_000,
            unlisted_max: 640,
        };
        let all = pb::TopKey { rule: "all".to_owned(), values: Vec::new(), ..key.clone() };
        let window = Some(duration::to_proto(leasehold_model::Nanos::from_secs(90)));
        let nodes_unanswered = vec!["us-2".to_owned()];
        pb::TopKeysResponse { keys: vec![key, all], window, sampled_one_in: 64, nodes: 2, nodes_unanswered }
    }

    #[test]
    fn keys_are_told_by_their_hashes_with_the_error_of_every_count() {
        let text = as_text(&told(), false);
        assert_eq!(
            text,
            "\
DOMAIN    RULE      KEY       REQUESTS  ERROR  REFUSED  SHARE
checkout  per-user  00112233    64,000    640    1,280    50%
checkout  all       00112233    64,000    640    1,280    50%
in the last 1m 30s, at 2 nodes, from one request in 64
requests may be too high by the error; a key that isn't tracked had 640 at most
missing, as they did not answer: us-2
"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        assert_eq!(as_json(&told(), false)["keys"][0]["values"], Value::Null);
    }

    #[test]
    fn values_are_shown_where_they_were_asked_for_and_move_no_cursor() {
        let text = as_text(&told(), true);
        assert!(text.contains("user=ann zone=\u{fffd}[2J") && text.contains("(all)"), "{text}");
        assert_eq!(as_json(&told(), true)["keys"][0]["values"]["user"], "ann");
    }

    #[test]
    fn nothing_seen_is_said_so() {
        let none = pb::TopKeysResponse { sampled_one_in: 64, ..Default::default() };
        assert_eq!(
            as_text(&none, false),
            "no key was seen in the last 0s, at this node, from one request in 64\n"
        );
    }
}
