//! `leasehold rules status`, `get` and `apply`: an operator's conversation with a running server.

use std::path::PathBuf;

use anyhow::anyhow;
use leasehold_limit::rules::RuleError;
use leasehold_wire::proto::leasehold::v1 as pb;
use leasehold_wire::status::rule_errors;
use pb::admin_client::AdminClient;
use serde_json::json;

use super::lint::{describe, mistake_json, read_file, show_mistakes};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format, number, text as word};
use crate::remote::{AdminServer, Remote, block_on};

/// Arguments of `leasehold rules status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    server: AdminServer,
}

/// Arguments of `leasehold rules get`.
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// The domain.
    domain: String,
    #[command(flatten)]
    server: AdminServer,
}

/// Arguments of `leasehold rules apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// One domain's rule file.
    file: PathBuf,
    /// Only if this version is in force now.
    #[arg(long, value_name = "VERSION")]
    expect: Option<u64>,
    #[command(flatten)]
    server: AdminServer,
}

/// Shows what is in force and how the last reload went.
pub(super) fn status(args: &StatusArgs, format: Format) -> Result<Outcome, Failure> {
    let status = block_on(async {
        let remote = args.server.connect().await?;
        let mut client = AdminClient::new(remote.channel.clone());
        let status = client.rules_status(remote.request(pb::RulesStatusRequest {})).await;
        status.map(tonic::Response::into_inner).map_err(|status| remote.refused(&status))
    })?;
    let mistakes: Vec<_> = status.errors.iter().map(mistake).collect();
    match format {
        Format::Json => output::json(&json!({
            "version": status.version,
            "source": status.source,
            "domains": status.domains.iter().map(|domain| json!({
                "domain": domain.name, "rules": domain.rules, "overrides": domain.overrides,
            })).collect::<Vec<_>>(),
            "reloads_accepted": status.reloads_accepted,
            "reloads_refused": status.reloads_refused,
            "mistakes": mistakes.iter().map(mistake_json).collect::<Vec<_>>(),
        })),
        Format::Table | Format::Svg => output::raw(&status_text(&status, &mistakes)),
    }
    Ok(if mistakes.is_empty() { Outcome::Done } else { Outcome::MistakesFound })
}

fn status_text(status: &pb::RulesStatusResponse, mistakes: &[RuleError]) -> String {
    let rows = status
        .domains
        .iter()
        .map(|domain| vec![domain.name.clone(), domain.rules.to_string(), domain.overrides.to_string()]);
    let mut text = format!(
        "version {} from {}; reloads: {} accepted, {} refused\n\n",
        status.version, status.source, status.reloads_accepted, status.reloads_refused
    );
    text.push_str(&output::table(&[word("domain"), number("rules"), number("overrides")], rows));
    if !mistakes.is_empty() {
        text.push_str(
            "\nThe last reload was refused; the rules above stay in force until this is mended:\n\n",
        );
        text.push_str(&describe(mistakes));
    }
    text
}

/// Prints one domain's rules.
pub(super) fn get(args: &GetArgs, format: Format) -> Result<Outcome, Failure> {
    let rules = block_on(async {
        let remote = args.server.connect().await?;
        let mut client = AdminClient::new(remote.channel.clone());
        let rules =
            client.get_rules(remote.request(pb::GetRulesRequest { domain: args.domain.clone() })).await;
        rules.map(tonic::Response::into_inner).map_err(|status| remote.refused(&status))
    })?;
    match format {
        Format::Json => output::json(&json!({ "version": rules.version, "text": rules.text })),
        Format::Table | Format::Svg => {
            output::raw(&rules.text);
            output::note(format!("version {}", rules.version));
        }
    }
    Ok(Outcome::Done)
}

/// Puts one domain's rules in force.
pub(super) fn apply(args: &ApplyArgs, format: Format) -> Result<Outcome, Failure> {
    let text = read_file(&args.file)?;
    let file = args.file.display().to_string();
    let version = block_on(async {
        let remote = args.server.connect().await?;
        let mut client = AdminClient::new(remote.channel.clone());
        let request = pb::PutRulesRequest { text, expected_version: args.expect };
        match client.put_rules(remote.request(request)).await {
            Ok(answer) => Ok(answer.into_inner().version),
            Err(status) => Err(not_applied(&remote, &file, &status)),
        }
    })?;
    match format {
        Format::Json => output::json(&json!({ "version": version })),
        Format::Table | Format::Svg => output::line(format!("{file} is in force as version {version}")),
    }
    Ok(Outcome::Done)
}

/// Shows every mistake that the server found, if that is why it refused.
fn not_applied(remote: &Remote, file: &str, status: &tonic::Status) -> Failure {
    let mistakes = rule_errors(status);
    if mistakes.is_empty() {
        return remote.refused(status);
    }
    // The server knows the text only; the file is ours.
    let ours: Vec<_> =
        mistakes.iter().map(|error| RuleError { file: file.to_owned(), ..mistake(error) }).collect();
    show_mistakes(&ours);
    Failure::error(anyhow!(
        "{} in {file}; the old rules stay in force",
        output::plural(ours.len(), "mistake")
    ))
}

fn mistake(error: &pb::RuleError) -> RuleError {
    RuleError {
        file: error.file.clone(),
        line: usize::try_from(error.line).unwrap_or(usize::MAX),
        column: usize::try_from(error.column).unwrap_or(usize::MAX),
        field: error.field.clone(),
        message: error.message.clone(),
        fix: error.fix.clone(),
    }
}
