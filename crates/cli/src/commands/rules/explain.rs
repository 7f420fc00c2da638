//! `leasehold rules explain`: what the rules make of one request, step by step, without a server or against one.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use leasehold_limit::check::Attribute;
use leasehold_limit::rules::rate::describe;
use leasehold_limit::rules::{Absent, Domain, Escrow, Matched, OnUnavailable, Pattern, Rule};
use leasehold_limit::{Ask, Decision};
use leasehold_model::Stamp;
use leasehold_wire::proto::leasehold::v1 as pb;
use pb::limiter_client::LimiterClient;
use serde_json::{Value, json};

use super::lint;
use super::request::Request;
use crate::commands::check;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};
use crate::remote::{Remote, block_on, parse_duration};

/// Arguments of `leasehold rules explain`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A request: {\"domain\": \"api\", \"peer\": \"10.0.0.1:4000\", \"headers\": [[\"X-Forwarded-For\", \"203.0.113.7\"]], \
                  \"trusted\": [\"10.0.0.0/8\"], \"header\": \"x-forwarded-for\", \"v6_prefix\": 64, \
                  \"attributes\": {\"path\": \"/login\"}, \"cost\": 1}. Everything but the domain may be left out."
)]
pub(crate) struct Args {
    /// A rule file, or a folder of them.
    #[arg(long, value_name = "FILE|DIR")]
    rules: PathBuf,
    /// The request, as JSON; `-` reads standard input.
    #[arg(long, value_name = "REQ.json")]
    request: PathBuf,
    /// Ask this running server what a peek would answer, instead of a fresh counter.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// How long to wait for the server.
    #[arg(long, default_value = "5s", value_parser = parse_duration, value_name = "TIME")]
    timeout: std::time::Duration,
}

/// Runs the command.
pub(super) fn run(args: &Args, format: Format) -> Result<Outcome, Failure> {
    let domains = read_rules(&args.rules)?;
    let request = Request::read(&args.request)?;
    let names: Vec<_> = domains.iter().map(|domain| domain.name.to_string()).collect();
    let domain = domains.into_iter().find(|domain| *domain.name == *request.domain).ok_or_else(|| {
        Failure::error(anyhow!("domain {:?} has no rules in {}", request.domain, args.rules.display()))
            .next(format!("the domains there are: {}", names.join(", ")))
    })?;
    let verdicts: Vec<_> = domain.rules.iter().map(|rule| judge(rule, &request)).collect();
    let live = args.server.as_ref().map(|server| peek(server, args.timeout, &request)).transpose()?;
    match format {
        Format::Json => output::json(&to_json(&request, &verdicts, live.as_ref())),
        Format::Table | Format::Svg => {
            output::raw(&output::visible(&to_text(&request, &verdicts, live.is_none())));
            if let Some(answer) = &live {
                output::line("\nthe server says:");
                check::show(answer, true, format);
            }
        }
    }
    Ok(Outcome::Done)
}

fn read_rules(path: &Path) -> Result<Vec<Domain>, Failure> {
    let (domains, mistakes) = lint::read(&lint::rule_files(&[path.to_owned()])?)?;
    if !mistakes.is_empty() {
        lint::show_mistakes(&mistakes);
        return Err(Failure::error(anyhow!("{} in the rules", output::plural(mistakes.len(), "mistake"))));
    }
    Ok(domains.into_iter().map(|(_, domain)| domain).collect())
}

fn peek(server: &str, timeout: std::time::Duration, request: &Request) -> Result<pb::CheckResponse, Failure> {
    let attributes = request.attributes.iter();
    let message = pb::PeekRequest {
        domain: request.domain.clone(),
        attributes: attributes
            .map(|(name, value)| pb::Attribute { name: name.clone(), value: value.clone().into() })
            .collect(),
    };
    block_on(async {
        let remote = Remote::connect(server, timeout, "--server").await?;
        let answer = LimiterClient::new(remote.channel.clone()).peek(remote.request(message)).await;
        answer.map(tonic::Response::into_inner).map_err(|status| remote.refused(&status))
    })
}

/// What one rule makes of the request.
struct Verdict<'a> {
    rule: &'a Arc<Rule>,
    result: Result<(Matched, Option<Decision>), String>,
}

fn judge<'a>(rule: &'a Arc<Rule>, request: &Request) -> Verdict<'a> {
    let attributes: Vec<_> =
        request.attributes.iter().map(|(name, value)| Attribute { name, value }).collect();
    let result = match Rule::matched(rule, &attributes) {
        Some(matched) => {
            let decision = matched.key.map(|_| {
                let ask = if request.cost <= 1 { Ask::PEEK } else { Ask::exactly(request.cost) };
                matched.owner().decide(&matched.owner().fresh(), Stamp::ZERO, ask)
            });
            Ok((matched, decision))
        }
        None => Err(why_not(rule, &attributes)),
    };
    Verdict { rule, result }
}

/// The first reason why a rule doesn't apply.
fn why_not(rule: &Rule, attributes: &[Attribute<'_>]) -> String {
    let value = |name: &str| attributes.iter().find(|attribute| attribute.name == name);
    for condition in &rule.when {
        let (name, wanted) = (&condition.attribute, pattern(&condition.pattern));
        match value(name) {
            None => return format!("{name} is absent, and must be {wanted}"),
            Some(found) if !condition.pattern.matches(found.value) => {
                return format!("{name} is {}, and must be {wanted}", bytes(found.value));
            }
            Some(_) => {}
        }
    }
    let absent = rule
        .per
        .iter()
        .find(|dimension| dimension.absent == Absent::Skip && value(&dimension.attribute).is_none());
    absent.map_or_else(
        || "it does not apply".to_owned(),
        |dimension| format!("{} is absent, and tells its counters apart", dimension.attribute),
    )
}

/// A pattern as rules write it.
fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(value) => bytes(value),
        Pattern::Prefix(value) => format!("{}*", bytes(value)),
        Pattern::OneOf(patterns) => {
            let any: Vec<_> = patterns.iter().map(self::pattern).collect();
            format!("one of {}", any.join(", "))
        }
        Pattern::Cidr(networks) => {
            let any: Vec<_> = networks.iter().map(ToString::to_string).collect();
            format!("in {}", any.join(" or "))
        }
    }
}

/// Bytes for people: text as it is, with everything that a terminal would act on escaped.
fn bytes(value: &[u8]) -> String {
    if value.is_empty() { "\"\"".to_owned() } else { value.escape_ascii().to_string() }
}

fn to_text(request: &Request, verdicts: &[Verdict<'_>], fresh: bool) -> String {
    let mut text = format!("domain      {}\n", request.domain);
    if let Some(client) = &request.client {
        let _ = writeln!(text, "client      {client}");
    }
    for (index, (name, value)) in request.attributes.iter().enumerate() {
        let label = if index == 0 { "attributes" } else { "" };
        let _ = writeln!(text, "{label:<12}{name} = {}", bytes(value));
    }
    let _ = writeln!(text, "cost        {}", request.cost);
    for Verdict { rule, result } in verdicts {
        match result {
            Ok((matched, decision)) => {
                let shadow = if rule.shadow { " (shadow: recorded, not enforced)" } else { "" };
                let numbers = describe(&matched.limit);
                let algorithm = matched.limit.algorithm().name();
                let special =
                    if Arc::ptr_eq(&matched.limit, &rule.limit) { "" } else { ", from an override" };
                let _ = write!(
                    text,
                    "\n{} applies{shadow}\n  limit     {numbers}, {algorithm}{special}\n",
                    rule.name
                );
                if let Some(aside) = set_aside(matched) {
                    let _ = writeln!(text, "  set aside {aside}");
                }
                match matched.key {
                    Some(key) => {
                        let _ = writeln!(text, "  counter   {key}");
                    }
                    None => text.push_str(
                        "  counter   none: an attribute that tells counters apart is absent, so it refuses\n",
                    ),
                }
                if let (Some(decision), true) = (decision, fresh) {
                    let _ = writeln!(text, "  answer    {}", answer(decision));
                }
            }
            Err(reason) => {
                let _ = write!(text, "\n{} does not apply\n  because   {reason}\n", rule.name);
            }
        }
    }
    text.push_str("\nA server names its counters by a secret of its own, so there the names differ.\n");
    if fresh {
        text.push_str("The answers are those of fresh counters; --server asks a running node for its own.\n");
    }
    text
}

/// What becomes of a limit under `on_unavailable: local`, in words.
fn set_aside(matched: &Matched) -> Option<String> {
    let rule = &matched.rule;
    let each = matched.escrow.as_ref().and_then(|Escrow { owner, each }| each.scale(owner));
    match each {
        Some(each) => Some(format!(
            "each of {} edges may spend {} while it can't reach the owner, which decides by {}",
            rule.edges,
            describe(&each),
            describe(matched.owner())
        )),
        None if rule.on_unavailable == OnUnavailable::Local => Some(format!(
            "nothing: the part of each of {} edges would be less than a unit, so local is as deny",
            rule.edges
        )),
        None => None,
    }
}

fn answer(decision: &Decision) -> String {
    let left = decision.remaining.saturating_add(decision.granted);
    if decision.allowed {
        return format!("would allow, {left} left");
    }
    format!("would deny, {left} left, retry after {}", output::retry_after(decision.retry_after))
}

fn to_json(request: &Request, verdicts: &[Verdict<'_>], live: Option<&pb::CheckResponse>) -> Value {
    let attributes: serde_json::Map<_, _> =
        request.attributes.iter().map(|(name, value)| (name.clone(), Value::from(bytes(value)))).collect();
    let rules = verdicts.iter().map(|Verdict { rule, result }| match result {
        Ok((matched, decision)) => json!({
            "rule": &*rule.name,
            "applies": true,
            "shadow": rule.shadow,
            "limit": describe(&matched.limit),
            "algorithm": matched.limit.algorithm().name(),
            "set_aside": set_aside(matched),
            "key": matched.key.map(|key| key.to_string()),
            "fresh_counter": decision.map(|decision| json!({
                "allowed": decision.allowed,
                "remaining": decision.remaining.saturating_add(decision.granted),
            })),
        }),
        Err(reason) => json!({ "rule": &*rule.name, "applies": false, "because": reason }),
    });
    json!({
        "domain": request.domain,
        "client": request.client,
        "attributes": attributes,
        "cost": request.cost,
        "rules": rules.collect::<Vec<_>>(),
        "server": live.map(check::to_json),
    })
}
