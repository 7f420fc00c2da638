//! `leasehold leases`: what is lent to edges, by which shard of which counter.

use clap::Subcommand;
use leasehold_wire::duration;
use leasehold_wire::proto::leasehold::v1 as pb;
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format, count, number, plural, table, text};
use crate::remote::AdminServer;

/// Digits of a hash that a table shows: enough to tell rows apart. JSON has all 32.
const DIGITS: usize = 8;

/// What can be done with leases.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the leases with the most units out, and all of them in numbers.
    Ls(LsArgs),
}

/// Arguments of `leasehold leases ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// Only leases of this domain's counters.
    #[arg(long)]
    domain: Option<String>,
    /// How many to list, at most 1000.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    limit: u32,
    #[command(flatten)]
    server: AdminServer,
}

/// Runs the command.
pub(super) fn run(command: &Command, format: Format) -> Result<Outcome, Failure> {
    let Command::Ls(args) = command;
    let request = pb::LeasesRequest { domain: args.domain.clone().unwrap_or_default(), limit: args.limit };
    let told = args.server.ask(request, async |client, request| client.leases(request).await)?;
    match format {
        Format::Json => output::json(&as_json(&told)),
        Format::Table | Format::Svg => output::raw(&as_text(&told)),
    }
    Ok(Outcome::Done)
}

fn as_text(told: &pb::LeasesResponse) -> String {
    let columns = [
        text("key"),
        text("domain"),
        number("shard"),
        text("edge"),
        number("granted"),
        number("spent"),
        number("back"),
        number("out"),
        number("ends in"),
    ];
    let mut shown = String::new();
    if !told.leases.is_empty() {
        shown.push_str(&table(&columns, told.leases.iter().map(row)));
    }
    for line in summary(told) {
        shown.push_str(&line);
        shown.push('\n');
    }
    shown
}

fn row(lease: &pb::Lease) -> Vec<String> {
    let edge = if lease.edge_name.is_empty() { short(&lease.edge) } else { lease.edge_name.clone() };
    let domain = if lease.domain.is_empty() { "?".to_owned() } else { lease.domain.clone() };
    vec![
        short(&lease.key),
        domain,
        lease.shard.to_string(),
        edge,
        count(lease.granted),
        count(lease.spent),
        count(lease.returned),
        count(out(lease)),
        output::duration(expires_in_nanos(lease)),
    ]
}

/// All leases in numbers, and what is not shown.
fn summary(told: &pb::LeasesResponse) -> Vec<String> {
    let totals = told.totals.unwrap_or_default();
    let leases = usize::try_from(totals.leases).unwrap_or(usize::MAX);
    let mut lines = vec![
        format!("{} with {} units out", plural(leases, "lease"), count(totals.out)),
        format!(
            "ever: {} granted, {} spent, {} returned, {} lapsed",
            count(totals.granted),
            count(totals.spent),
            count(totals.returned),
            count(totals.lapsed)
        ),
    ];
    if told.more {
        lines.push("there are more than are shown: list more with --limit N".to_owned());
    }
    if told.shards_unanswered > 0 {
        let shards = plural(usize::try_from(told.shards_unanswered).unwrap_or(usize::MAX), "shard");
        lines.push(format!("{shards} without a leader that answers: what they lend is missing"));
    }
    if totals.violations > 0 {
        lines.push(format!("{} UNITS NOT ACCOUNTED FOR, times: please report it", count(totals.violations)));
    }
    lines
}

fn short(hash: &str) -> String {
    hash.chars().take(DIGITS).collect()
}

fn out(lease: &pb::Lease) -> u64 {
    lease.granted.saturating_sub(lease.spent).saturating_sub(lease.returned)
}

fn expires_in_nanos(lease: &pb::Lease) -> u64 {
    lease.expires_in.and_then(|wait| duration::from_proto(wait).ok()).unwrap_or_default().0
}

/// In the shape of `GET /v1/leases`.
fn as_json(told: &pb::LeasesResponse) -> Value {
    let known = |text: &String| (!text.is_empty()).then(|| text.clone());
    let leases = told.leases.iter().map(|lease| {
        json!({
            "key": lease.key,
            "domain": known(&lease.domain),
            "shard": lease.shard,
            "edge": lease.edge,
            "edge_name": known(&lease.edge_name),
            "granted": lease.granted,
            "spent": lease.spent,
            "returned": lease.returned,
            "out": out(lease),
            "expires_in_ms": expires_in_nanos(lease).div_ceil(1_000_000),
        })
    });
    let totals = told.totals.unwrap_or_default();
    json!({
        "leases": leases.collect::<Vec<_>>(),
        "more": told.more,
        "totals": {
            "leases": totals.leases,
            "out": totals.out,
            "grants": totals.grants,
            "granted": totals.granted,
            "spent": totals.spent,
            "returned": totals.returned,
            "lapsed": totals.lapsed,
            "gates": totals.gates,
            "violations": totals.violations,
        },
        "shards_unanswered": told.shards_unanswered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> pb::LeasesResponse {
        let lease = pb::Lease {
            key: "00112233445566778899aabbccddeeff".to_owned(),
            domain: "checkout".to_owned(),
            shard: 12,
            edge: "ffeeddccbbaa99887766554433221100".to_owned(),
            granted: 12_000,
            spent: 7_000,
            returned: 500,
            expires_in: Some(duration::to_proto(leasehold_model::Nanos(4_200_000_000))),
            ..pb::Lease::default()
        };
        let named = pb::Lease { edge_name: "gateway".to_owned(), domain: String::new(), ..lease.clone() };
        let totals = pb::LeaseTotals { leases: 3, out: 9_100, granted: 24_000, ..Default::default() };
        pb::LeasesResponse {
            leases: vec![lease, named],
            more: true,
            totals: Some(totals),
            shards_unanswered: 1,
        }
    }

    #[test]
    fn leases_are_listed_with_all_of_them_in_numbers_below() {
        assert_eq!(
            as_text(&told()),
            "\
KEY       DOMAIN    SHARD  EDGE      GRANTED  SPENT  BACK    OUT  ENDS IN
00112233  checkout     12  ffeeddcc   12,000  7,000   500  4,500     4.2s
00112233  ?            12  gateway    12,000  7,000   500  4,500     4.2s
3 leases with 9,100 units out
ever: 24,000 granted, 0 spent, 0 returned, 0 lapsed
there are more than are shown: list more with --limit N
1 shard without a leader that answers: what they lend is missing
"
        );
        assert!(as_text(&told()).lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn without_leases_there_is_no_table() {
        let none = pb::LeasesResponse::default();
        let text = "0 leases with 0 units out\never: 0 granted, 0 spent, 0 returned, 0 lapsed\n";
        assert_eq!(as_text(&none), text);
        assert_eq!(as_json(&told())["leases"][0]["out"], 4_500);
    }
}
