//! `leasehold check`, `peek` and `reset`: one conversation with a running server over gRPC.

use clap::builder::NonEmptyStringValueParser;
use leasehold_limit::Limit;
use leasehold_limit::check::{Source, Verdict};
use leasehold_limit::rules::rate::describe;
use leasehold_wire::duration::{self, Duration};
use leasehold_wire::proto::leasehold::v1 as pb;
use pb::limiter_client::LimiterClient;
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format, number, text};
use crate::remote::{Remote, Server, block_on};

/// What a check, a peek and a reset have in common.
#[derive(Debug, clap::Args)]
struct Descriptor {
    /// The domain: the namespace of rules.
    domain: String,
    /// The request's attributes.
    #[arg(value_name = "NAME=VALUE", value_parser = parse_attribute)]
    attributes: Vec<(String, String)>,
    #[command(flatten)]
    server: Server,
}

/// Arguments of `leasehold check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    descriptor: Descriptor,
    /// Units to take; 0 only looks.
    #[arg(long, default_value_t = 1)]
    cost: u64,
    /// Repeated under one id, the request is charged once and gets the same answer.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    request_id: Option<String>,
}

/// Arguments of `leasehold peek`.
#[derive(Debug, clap::Args)]
pub(crate) struct PeekArgs {
    #[command(flatten)]
    descriptor: Descriptor,
}

/// Arguments of `leasehold reset`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    descriptor: Descriptor,
    /// Only this rule's counter.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    rule: Option<String>,
}

/// Splits `name=value` at its first `=`; the value may hold more of them, or nothing.
pub(super) fn parse_attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err("the name before `=` is empty".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(format!("write name=value, for example {text}=...")),
    }
}

impl Descriptor {
    fn attributes(&self) -> Vec<pb::Attribute> {
        let attribute = |(name, value): &(String, String)| pb::Attribute {
            name: name.clone(),
            value: value.clone().into_bytes().into(),
        };
        self.attributes.iter().map(attribute).collect()
    }
}

/// Takes from every limit that applies, or from none.
pub(super) fn check(args: &CheckArgs, format: Format) -> Result<Outcome, Failure> {
    let request = pb::CheckRequest {
        domain: args.descriptor.domain.clone(),
        attributes: args.descriptor.attributes(),
        cost: Some(args.cost),
        request_id: args.request_id.clone().unwrap_or_default(),
    };
    let answer = block_on(async {
        let remote = args.descriptor.server.connect().await?;
        let answer = LimiterClient::new(remote.channel.clone()).check(remote.request(request)).await;
        answered(&remote, answer)
    })?;
    Ok(show(&answer, args.cost == 0, format))
}

/// Looks, and takes nothing.
pub(super) fn peek(args: &PeekArgs, format: Format) -> Result<Outcome, Failure> {
    let request =
        pb::PeekRequest { domain: args.descriptor.domain.clone(), attributes: args.descriptor.attributes() };
    let answer = block_on(async {
        let remote = args.descriptor.server.connect().await?;
        let answer = LimiterClient::new(remote.channel.clone()).peek(remote.request(request)).await;
        answered(&remote, answer)
    })?;
    Ok(show(&answer, true, format))
}

/// Makes counters fresh.
pub(super) fn reset(args: &ResetArgs, format: Format) -> Result<Outcome, Failure> {
    let request = pb::ResetRequest {
        domain: args.descriptor.domain.clone(),
        attributes: args.descriptor.attributes(),
        rule: args.rule.clone().unwrap_or_default(),
    };
    let answer = block_on(async {
        let remote = args.descriptor.server.connect().await?;
        let answer = LimiterClient::new(remote.channel.clone()).reset(remote.request(request)).await;
        answered(&remote, answer)
    })?;
    match format {
        Format::Json => output::json(&json!({ "reset": answer.reset })),
        Format::Table | Format::Svg => output::line(match answer.reset {
            0 => "nothing to reset: no counter held anything".to_owned(),
            1 => "1 counter is fresh again".to_owned(),
            more => format!("{more} counters are fresh again"),
        }),
    }
    Ok(Outcome::Done)
}

fn answered<T>(remote: &Remote, answer: Result<tonic::Response<T>, tonic::Status>) -> Result<T, Failure> {
    answer.map(tonic::Response::into_inner).map_err(|status| remote.refused(&status))
}

/// Prints an answer; a peek speaks of what would be.
pub(super) fn show(answer: &pb::CheckResponse, peek: bool, format: Format) -> Outcome {
    match format {
        Format::Json => output::json(&to_json(answer)),
        Format::Table | Format::Svg => output::raw(&to_table(answer, peek)),
    }
    match answer.verdict() {
        pb::Verdict::Allowed => Outcome::Done,
        pb::Verdict::Unspecified | pb::Verdict::OverLimit | pb::Verdict::Unavailable => Outcome::Denied,
    }
}

fn to_table(answer: &pb::CheckResponse, peek: bool) -> String {
    let verdict = match (answer.verdict(), peek) {
        (pb::Verdict::Allowed, false) => "allowed",
        (pb::Verdict::Allowed, true) => "would be allowed",
        (pb::Verdict::OverLimit, false) => "denied: over the limit, nothing was charged",
        (pb::Verdict::OverLimit, true) => "would be denied: over the limit",
        (pb::Verdict::Unavailable | pb::Verdict::Unspecified, _) => "denied: the limit could not be asked",
    };
    let degraded = if answer.degraded { " (degraded: a limit could not be asked)" } else { "" };
    if answer.matched.is_empty() {
        return format!(
            "{verdict}{degraded}: no rule matched; `leasehold rules status` lists the domains, `rules explain` says why\n"
        );
    }
    let columns = [
        text("rule"),
        text("limit"),
        text("allowed"),
        number("remaining"),
        number("retry after"),
        number("reset after"),
        text("source"),
    ];
    let turn =
        turn(answer).map_or_else(String::new, |wait| format!(" after waiting {}", output::duration(wait)));
    format!("{verdict}{turn}{degraded}\n\n") + &output::table(&columns, answer.matched.iter().map(row))
}

/// How long an admitted caller must wait for its turn, in nanoseconds: the longest of the enforced shapers' waits.
fn turn(answer: &pb::CheckResponse) -> Option<u64> {
    let enforced = answer.matched.iter().filter(|matched| !matched.shadow);
    enforced.filter_map(|matched| matched.wait.as_ref()).map(nanos).max().filter(|wait| *wait > 0)
}

fn row(matched: &pb::MatchedRule) -> Vec<String> {
    let shadow = if matched.shadow { " (shadow)" } else { "" };
    let mut row = vec![
        format!("{}{shadow}", matched.rule),
        matched.limit.as_ref().map_or_else(|| "-".to_owned(), describe_limit),
        if matched.allowed { "yes" } else { "no" }.to_owned(),
    ];
    row.extend(match matched.outcome() {
        pb::Outcome::Decided => {
            [matched.remaining.to_string(), retry(matched), span(matched.reset_after.as_ref())]
        }
        pb::Outcome::Unavailable => ["unavailable".to_owned(), "-".to_owned(), "-".to_owned()],
        pb::Outcome::Unidentified => ["no attribute".to_owned(), "-".to_owned(), "-".to_owned()],
        pb::Outcome::Unspecified => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
    });
    row.push(source(matched).unwrap_or("-").to_owned());
    row
}

/// Who decided; `None` when nobody did, or an older server doesn't say.
fn source(matched: &pb::MatchedRule) -> Option<&'static str> {
    match matched.source() {
        pb::Source::Owner => Some(Source::Owner.name()),
        pb::Source::Lease => Some(Source::Lease.name()),
        pb::Source::DenyCache => Some(Source::DenyCache.name()),
        pb::Source::Fallback => Some(Source::Fallback.name()),
        pb::Source::Unspecified => None,
    }
}

/// A length of time for people; a dash when there is none.
fn span(length: Option<&Duration>) -> String {
    length.map_or_else(|| "-".to_owned(), |length| output::duration(nanos(length)))
}

/// A length of time in nanoseconds; a malformed one, which no server sends, is none.
fn nanos(length: &Duration) -> u64 {
    duration::from_proto(*length).map_or(0, |length| length.0)
}

fn retry(matched: &pb::MatchedRule) -> String {
    match &matched.retry {
        None => "-".to_owned(),
        Some(pb::matched_rule::Retry::RetryAfter(wait)) => span(Some(wait)),
        Some(pb::matched_rule::Retry::Never(_)) => "never".to_owned(),
    }
}

/// The numbers of a limit; a dash for one of a newer server that this program doesn't know.
fn describe_limit(limit: &pb::Limit) -> String {
    Limit::try_from(limit).map_or_else(|_| "-".to_owned(), |limit| describe(&limit))
}

/// An answer as JSON.
pub(super) fn to_json(answer: &pb::CheckResponse) -> Value {
    let verdict = match answer.verdict() {
        pb::Verdict::Allowed => Verdict::Allowed.name(),
        pb::Verdict::OverLimit => Verdict::OverLimit.name(),
        pb::Verdict::Unavailable => Verdict::Unavailable.name(),
        pb::Verdict::Unspecified => "unspecified",
    };
    json!({
        "verdict": verdict,
        "degraded": answer.degraded,
        "rules_version": answer.rules_version,
        "matched": answer.matched.iter().map(matched_json).collect::<Vec<_>>(),
    })
}

fn matched_json(matched: &pb::MatchedRule) -> Value {
    let mut object = json!({
        "rule": matched.rule,
        "limit": matched.limit.as_ref().map(describe_limit),
        "shadow": matched.shadow,
        "allowed": matched.allowed,
    });
    match matched.outcome() {
        pb::Outcome::Decided => {
            object["source"] = source(matched).into();
            object["remaining"] = matched.remaining.into();
            object["retry_after_ns"] = match &matched.retry {
                None => Value::Null,
                Some(pb::matched_rule::Retry::RetryAfter(wait)) => nanos(wait).into(),
                Some(pb::matched_rule::Retry::Never(_)) => "never".into(),
            };
            object["reset_after_ns"] = matched.reset_after.as_ref().map(nanos).into();
            if let Some(wait) = &matched.wait {
                object["wait_ns"] = nanos(wait).into();
            }
        }
        pb::Outcome::Unavailable => object["error"] = "unavailable".into(),
        pb::Outcome::Unidentified => object["error"] = "unidentified".into(),
        pb::Outcome::Unspecified => {}
    }
    object
}
