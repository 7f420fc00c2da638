//! `leasehold rules status`, `get`, `apply` and `remove`: an operator's conversation with a running server.

use std::path::PathBuf;

use anyhow::anyhow;
use leasehold_limit::rules::{RuleError, SENT_TEXT};
use leasehold_wire::proto::leasehold::v1 as pb;
use leasehold_wire::status::rule_errors;
use pb::admin_client::AdminClient;
use serde_json::json;

use super::lint::{describe, mistake_json, note, read_file};
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

/// Arguments of `leasehold rules remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// The domain.
    domain: String,
    /// Only if this version is in force now.
    #[arg(long, value_name = "VERSION")]
    expect: Option<u64>,
    #[command(flatten)]
    server: AdminServer,
}

/// Shows what is in force and how the last reload went.
pub(super) fn status(args: &StatusArgs, format: Format) -> Result<Outcome, Failure> {
    let status = args
        .server
        .ask(pb::RulesStatusRequest {}, async |client, request| client.rules_status(request).await)?;
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
        text.push_str(&describe(mistakes, |_| String::new()));
    }
    text
}

/// Prints one domain's rules.
pub(super) fn get(args: &GetArgs, format: Format) -> Result<Outcome, Failure> {
    let request = pb::GetRulesRequest { domain: args.domain.clone() };
    let rules = args.server.ask(request, async |client, request| client.get_rules(request).await)?;
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
        let request = pb::PutRulesRequest { text: text.clone(), expected_version: args.expect };
        match client.put_rules(remote.request(request)).await {
            Ok(answer) => Ok(answer.into_inner().version),
            Err(status) => Err(not_applied(&remote, &file, &text, &status)),
        }
    })?;
    match format {
        Format::Json => output::json(&json!({ "version": version })),
        Format::Table | Format::Svg => output::line(format!("{file} is in force as version {version}")),
    }
    Ok(Outcome::Done)
}

/// Takes one domain's rules out of force.
pub(super) fn remove(args: &RemoveArgs, format: Format) -> Result<Outcome, Failure> {
    let request = pb::RemoveRulesRequest { domain: args.domain.clone(), expected_version: args.expect };
    let removed = args.server.ask(request, async |client, request| client.remove_rules(request).await)?;
    match format {
        Format::Json => output::json(&json!({ "domain": args.domain, "version": removed.version })),
        Format::Table | Format::Svg => output::line(format!(
            "{} has no rules any more, as of version {}: its requests pass without a limit",
            output::visible(&args.domain),
            removed.version
        )),
    }
    Ok(Outcome::Done)
}

/// Shows every mistake that the server found, if that is why it refused: those in the file that was sent, and those in
/// other files of its folder, which are checked with it.
fn not_applied(remote: &Remote, file: &str, text: &str, status: &tonic::Status) -> Failure {
    let mistakes: Vec<_> = rule_errors(status).iter().map(|error| renamed(mistake(error), file)).collect();
    if mistakes.is_empty() {
        return remote.refused(status);
    }
    note(&describe(&mistakes, |named| if named == file { text.to_owned() } else { String::new() }));
    let ours = mistakes.iter().filter(|mistake| mistake.file == file).count();
    let others = match mistakes.len() - ours {
        0 => String::new(),
        others => format!(" and {} in other files of the server", output::plural(others, "mistake")),
    };
    Failure::error(anyhow!(
        "{} in {file}{others}; the old rules stay in force",
        output::plural(ours, "mistake")
    ))
}

/// The server knows the text only; the file is ours.
fn renamed(mistake: RuleError, file: &str) -> RuleError {
    match mistake.file == SENT_TEXT {
        true => RuleError { file: file.to_owned(), ..mistake },
        false => mistake,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(named: &str, expected: &str) {
        let (line, column, text) = (1, 1, String::new);
        let given =
            RuleError { file: named.to_owned(), line, column, field: text(), message: text(), fix: text() };
        assert_eq!(renamed(given, "mine.yaml").file, expected);
    }

    #[test]
    fn only_mistakes_of_the_text_that_was_sent_are_those_of_the_file_it_came_from() {
        check(SENT_TEXT, "mine.yaml");
        check("/etc/leasehold/other.yaml", "/etc/leasehold/other.yaml");
    }
}
