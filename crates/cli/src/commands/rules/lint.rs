//! `leasehold rules lint`: every mistake with its place, its line and the fix, in the form compilers use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use leasehold_limit::KeySecret;
use leasehold_limit::rules::{self, Domain, FILE_BYTES_MAX, OnUnavailable, Rule, RuleBook, RuleError};
use leasehold_model::RulesVersion;
use leasehold_node::files::read_text;
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format, plural};

#[cfg(test)]
mod tests;

/// Columns of a source line that are shown, so that a file without line ends doesn't flood the terminal.
const SOURCE_COLUMNS_MAX: usize = 160;

/// Counter names don't matter to a file on its own, so any secret serves to read one.
pub(super) const OFFLINE_SECRET: KeySecret = KeySecret::new([0; 16]);

/// Arguments of `leasehold rules lint`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rule files, or folders with *.yaml and *.yml files, which are read together as a server would.
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
}

/// A domain that was read, and how its file is called.
pub(super) type Named = (String, Domain);

/// Runs the command.
pub(super) fn run(args: &Args, format: Format) -> Result<Outcome, Failure> {
    let files = rule_files(&args.paths)?;
    let (domains, mistakes) = read(&files)?;
    match format {
        Format::Json => output::json(&to_json(&domains, &mistakes)),
        Format::Table | Format::Svg => output::raw(&report(files.len(), &domains, &mistakes)),
    }
    Ok(if mistakes.is_empty() { Outcome::Done } else { Outcome::MistakesFound })
}

/// Reads and checks `files` as one set.
pub(super) fn read(files: &[PathBuf]) -> Result<(Vec<Named>, Vec<RuleError>)> {
    let (mut domains, mut mistakes) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.display().to_string();
        match rules::parse(&name, &read_file(path)?, &OFFLINE_SECRET) {
            Ok(domain) => domains.push((name, domain)),
            Err(found) => mistakes.extend(found),
        }
    }
    if let Err(found) = RuleBook::new(RulesVersion(1), domains.clone()) {
        mistakes.extend(found);
    }
    Ok((domains, mistakes))
}

/// The rule files that `paths` name; of folders, those that a server would read.
pub(super) fn rule_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found = leasehold_node::rule_files(path);
        files.extend(found.with_context(|| format!("cannot read the folder {}", path.display()))?);
    }
    Ok(files)
}

/// Reads a rule file.
pub(super) fn read_file(path: &Path) -> Result<String> {
    read_text(path, FILE_BYTES_MAX).with_context(|| format!("cannot read {}", path.display()))
}

fn report(files: usize, domains: &[Named], mistakes: &[RuleError]) -> String {
    if mistakes.is_empty() {
        let line = |(file, domain): &Named| {
            let notes: String = notes(domain).map(|note| format!("note: {file}: {note}\n")).collect();
            format!("ok: {file}: domain {}, {}\n{notes}", domain.name, rules(domain))
        };
        return domains.iter().map(line).collect();
    }
    let mut text = describe(mistakes, local);
    text.push_str(&format!("{} in {}\n", plural(mistakes.len(), "mistake"), plural(files, "file")));
    text
}

/// What is no mistake and yet not what somebody may expect: a share that comes to nothing.
fn notes(domain: &Domain) -> impl Iterator<Item = String> {
    let without = |rule: &&Arc<Rule>| rule.on_unavailable == OnUnavailable::Local && rule.escrow.is_none();
    domain.rules.iter().filter(without).map(|rule| {
        format!(
            "{}: on_unavailable: local is as deny here, for the part of each of {} edges is less than a unit; \
             lower edges, or raise local_share",
            rule.name, rule.edges
        )
    })
}

fn rules(domain: &Domain) -> String {
    plural(domain.rules.len(), "rule")
}

fn to_json(domains: &[Named], mistakes: &[RuleError]) -> Value {
    let domain = |(file, domain): &Named| {
        let notes: Vec<_> = notes(domain).collect();
        json!({ "file": file, "domain": &*domain.name, "rules": domain.rules.len(), "notes": notes })
    };
    json!({
        "ok": mistakes.is_empty(),
        "domains": domains.iter().map(domain).collect::<Vec<_>>(),
        "mistakes": mistakes.iter().map(mistake_json).collect::<Vec<_>>(),
    })
}

/// A mistake as JSON.
pub(super) fn mistake_json(mistake: &RuleError) -> Value {
    json!({
        "file": mistake.file,
        "line": mistake.line,
        "column": mistake.column,
        "field": mistake.field,
        "message": mistake.message,
        "fix": mistake.fix,
    })
}

/// Prints mistakes in files of this machine to standard error, each with the line it is on where its file can be read.
pub(in crate::commands) fn show_mistakes(mistakes: &[RuleError]) {
    note(&describe(mistakes, local));
}

/// Prints described mistakes to standard error.
pub(super) fn note(described: &str) {
    output::note(described.trim_end());
    output::note("");
}

/// The text of a file of this machine; nothing when it can't be read.
fn local(file: &str) -> String {
    read_file(Path::new(file)).unwrap_or_default()
}

/// Mistakes with the lines they are on, as far as `text_of` knows the text of a file. A server's paths say nothing about
/// the files here, so its mistakes are described without.
pub(super) fn describe(mistakes: &[RuleError], text_of: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    let mut source: Option<(&str, String)> = None;
    for mistake in mistakes {
        if source.as_ref().is_none_or(|(file, _)| *file != mistake.file) {
            source = Some((&mistake.file, text_of(&mistake.file)));
        }
        let lines = source.as_ref().map_or("", |(_, lines)| lines);
        text.push_str(&render(mistake, lines));
        text.push('\n');
    }
    text
}

/// One mistake: message, place, line with a caret below the column, and the fix.
pub(super) fn render(mistake: &RuleError, source: &str) -> String {
    let RuleError { file, line, column, field, message, fix } = mistake;
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
    let mut text = format!("error: {field}{message}\n{margin}--> {file}:{line}:{column}\n");
    if let Some(shown) = line.checked_sub(1).and_then(|index| source.lines().nth(index)) {
        let (shown, indent) = clip(shown, *column);
        text.push_str(&format!("{margin} |\n{number} | {shown}\n{margin} | {indent}^\n"));
    }
    if !fix.is_empty() {
        text.push_str(&format!("{margin} = fix: {fix}\n"));
    }
    output::visible(&text)
}

/// The part of a line that is shown, and the blanks that put a caret below `column` (from 1, in characters).
fn clip(line: &str, column: usize) -> (String, String) {
    let before = column.saturating_sub(1);
    let skipped = if before < SOURCE_COLUMNS_MAX { 0 } else { before - SOURCE_COLUMNS_MAX / 2 };
    let shown: String = line.chars().skip(skipped).take(SOURCE_COLUMNS_MAX).collect();
    let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
    let mut indent: String = line.chars().skip(skipped).take(before - skipped).map(blank).collect();
    indent.push_str(&" ".repeat((before - skipped).saturating_sub(indent.chars().count())));
    (shown, indent)
}
