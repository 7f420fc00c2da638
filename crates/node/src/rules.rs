//! The rules in force: read as a whole, validated as a whole, swapped as a whole.
//!
//! Invariants: a bad set leaves the old one in force; the version counts up by one at each accepted change and at
//! nothing else; whoever changes rules (watcher, SIGHUP, operator) holds `change` meanwhile, so that no change is lost
//! and an operator's own write is not taken for somebody else's.

mod source;
mod store;
mod watcher;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use leasehold_front::{AdminError, DomainStatus, RulesStatus};
use leasehold_limit::KeySecret;
use leasehold_limit::rules::{Domain, RuleBook, RuleError, SENT_TEXT, parse};
use leasehold_model::{RulesVersion, Stamp};
use parking_lot::Mutex;

use crate::authority::Line;
use crate::metrics::{Metrics, RuleMeters};
pub use source::rule_files;
pub(crate) use source::{ReadError, RuleFile, Source};
pub(crate) use watcher::{Watch, reload};

/// Mistakes of one reload that are logged one by one; all of them are in the status.
const MISTAKES_LOGGED_MAX: usize = 50;

/// The rules in force, and how they change.
#[derive(Debug)]
pub(crate) struct RulesInForce {
    source: Source,
    secret: KeySecret,
    metrics: Arc<Metrics>,
    /// Tells since when a rule set is in force. `None`: each always was.
    line: Option<Line>,
    /// The domain of requests that name none. Without rules they all pass, so the log warns of that.
    fallback_domain: Option<String>,
    active: ArcSwap<Active>,
    /// The files that were last looked at, in force or refused. `None`: they could not be read. Held by whoever changes
    /// rules.
    change: Mutex<Option<Vec<RuleFile>>>,
    history: Mutex<History>,
}

/// One rule set, with what was resolved when it was swapped in.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) book: Arc<RuleBook>,
    pub(crate) meters: RuleMeters,
    /// What it was made from.
    files: Vec<RuleFile>,
    /// Which file holds which domain.
    homes: BTreeMap<Arc<str>, PathBuf>,
}

/// What a reload came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// Nothing is different from the last time.
    Unchanged,
    /// New rules are in force.
    Accepted(RulesVersion),
    /// There are mistakes; the old rules stay.
    Refused,
}

#[derive(Debug, Default)]
struct History {
    mistakes: Vec<RuleError>,
    accepted: u64,
    refused: u64,
}

/// Why there are no rules to start with.
#[derive(Debug)]
pub(crate) enum LoadError {
    Read(ReadError),
    Mistakes(Vec<RuleError>),
}

impl RulesInForce {
    /// Reads the first rules: without them a node doesn't start.
    pub(crate) fn load(source: Source, secret: KeySecret, metrics: Arc<Metrics>) -> Result<Self, LoadError> {
        let files = source.read().map_err(LoadError::Read)?;
        let first = RulesVersion(1);
        let active = build(files.clone(), first, &secret, &metrics).map_err(LoadError::Mistakes)?;
        metrics.rules_version(first);
        Ok(Self {
            source,
            secret,
            metrics,
            line: None,
            fallback_domain: None,
            active: ArcSwap::from_pointee(active),
            change: Mutex::new(Some(files)),
            history: Mutex::default(),
        })
    }

    /// These, with later sets in force since what `line` says when they are swapped in.
    pub(crate) fn since_by(self, line: Line) -> Self {
        Self { line: Some(line), ..self }
    }

    /// These, with a warning now and at each change while `domain` has no rules.
    pub(crate) fn with_fallback_domain(self, domain: Option<String>) -> Self {
        let rules = Self { fallback_domain: domain, ..self };
        rules.warn_of_missing(None);
        rules
    }

    /// Warns of domains without rules that had some, or that requests fall back to: their requests pass without a limit.
    fn warn_of_missing(&self, old: Option<&RuleBook>) {
        let active = self.active.load();
        for domain in old.map(|old| domains_missing_from(old, &active.book)).unwrap_or_default() {
            tracing::warn!(domain, "this domain has no rules any more: its requests pass without a limit");
        }
        if let Some(domain) =
            self.fallback_domain.as_deref().filter(|name| !active.book.domains.contains_key(*name))
        {
            tracing::warn!(
                domain,
                "authorize.domain has no rules: requests that name no domain pass without a limit"
            );
        }
    }

    /// The rule set in force.
    pub(crate) fn active(&self) -> Arc<Active> {
        self.active.load_full()
    }

    /// The secret that keys counter names.
    pub(crate) fn secret(&self) -> &KeySecret {
        &self.secret
    }

    /// Where the rules come from.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Looks at the files and puts what has changed in force. Blocks on the disk.
    pub(crate) fn reload(&self) -> Reload {
        self.catch_up(&mut self.change.lock())
    }

    /// Validates one domain's rules, writes them to their file and puts them in force. Blocks on the disk.
    pub(crate) fn put(&self, text: &str, expected: Option<RulesVersion>) -> Result<RulesVersion, AdminError> {
        let mut seen = self.change.lock();
        self.catch_up(&mut seen);
        let active = self.active();
        let current = active.book.version;
        if let Some(expected) = expected.filter(|expected| *expected != current) {
            return Err(AdminError::Conflict { expected, current });
        }
        let domain = parse(SENT_TEXT, text, &self.secret).map_err(AdminError::Invalid)?;
        let path = self.source.path_for(&domain.name, &active.homes)?;
        if active.book.domains.get(&domain.name).is_some_and(|held| *held.source == *text) {
            return Ok(current);
        }
        let files = replaced(self.others(seen.as_deref())?, &path, text);
        let next = build(files.clone(), successor(current), &self.secret, &self.metrics)
            .map_err(AdminError::Invalid)?;
        store::write(&path, text)?;
        *seen = Some(files);
        Ok(self.accept(next))
    }

    /// The files that one is replaced among. A folder that can't be read hides the limits of other domains; a file that
    /// can't be read holds nothing but what is replaced.
    fn others<'a>(&self, seen: Option<&'a [RuleFile]>) -> Result<&'a [RuleFile], AdminError> {
        match (seen, &self.source) {
            (Some(files), _) => Ok(files),
            (None, Source::File(_) | Source::BuiltIn) => Ok(&[]),
            (None, Source::Folder(_)) => {
                let history = self.history.lock();
                let why = history.mistakes.first().map(ToString::to_string).unwrap_or_default();
                Err(AdminError::Failed(format!("the other rules cannot be read: {why}")))
            }
        }
    }

    /// What is in force and how the last reload went.
    pub(crate) fn status(&self) -> RulesStatus {
        let active = self.active();
        let history = self.history.lock();
        let domains = active.book.domains.values().map(domain_status).collect();
        RulesStatus {
            version: active.book.version,
            source: self.source.to_string(),
            domains,
            errors: history.mistakes.clone(),
            reloads_accepted: history.accepted,
            reloads_refused: history.refused,
        }
    }

    /// Validates one domain's rules; returns its name.
    pub(crate) fn validate(&self, text: &str) -> Result<String, Vec<RuleError>> {
        parse(SENT_TEXT, text, &self.secret).map(|domain| domain.name.to_string())
    }

    fn catch_up(&self, seen: &mut Option<Vec<RuleFile>>) -> Reload {
        let files = match self.source.read() {
            Ok(files) => files,
            Err(error) => {
                *seen = None;
                return self.refuse(vec![error.into_mistake()]);
            }
        };
        if seen.as_ref() == Some(&files) {
            return Reload::Unchanged;
        }
        *seen = Some(files.clone());
        let active = self.active();
        if files == active.files {
            self.history.lock().mistakes.clear();
            tracing::info!(version = %active.book.version, "the rules on disk are again those in force");
            return Reload::Unchanged;
        }
        let built = build(files, successor(active.book.version), &self.secret, &self.metrics);
        match built {
            Ok(next) => Reload::Accepted(self.accept(next)),
            Err(mistakes) => self.refuse(mistakes),
        }
    }

    fn accept(&self, mut next: Active) -> RulesVersion {
        Arc::make_mut(&mut next.book).since = self.line.as_ref().map_or(Stamp::ZERO, Line::now);
        let version = next.book.version;
        let old = self.active.swap(Arc::new(next));
        self.metrics.forget_rules_missing_from(&old.book, &self.active.load().book);
        self.metrics.rules_version(version);
        self.metrics.reload_accepted();
        self.warn_of_missing(Some(&old.book));
        let mut history = self.history.lock();
        history.mistakes.clear();
        history.accepted += 1;
        tracing::info!(%version, source = %self.source, "new rules are in force");
        version
    }

    fn refuse(&self, mistakes: Vec<RuleError>) -> Reload {
        let mut history = self.history.lock();
        if history.mistakes == mistakes {
            return Reload::Unchanged;
        }
        for mistake in mistakes.iter().take(MISTAKES_LOGGED_MAX) {
            let place = format!("{}:{}:{}", mistake.file, mistake.line, mistake.column);
            let (field, fix) = (&mistake.field, &mistake.fix);
            tracing::warn!(place, field, fix, "rules refused: {}", mistake.message);
        }
        let version = self.active.load().book.version;
        tracing::warn!(mistakes = mistakes.len(), %version, "the old rules stay in force");
        self.metrics.reload_refused();
        history.mistakes = mistakes;
        history.refused += 1;
        Reload::Refused
    }
}

fn build(
    files: Vec<RuleFile>,
    version: RulesVersion,
    secret: &KeySecret,
    metrics: &Metrics,
) -> Result<Active, Vec<RuleError>> {
    let (mut domains, mut homes, mut mistakes) = (Vec::new(), BTreeMap::new(), Vec::new());
    for file in &files {
        let name = file.path.display().to_string();
        match parse(&name, &file.text, secret) {
            Ok(domain) => {
                homes.insert(Arc::clone(&domain.name), file.path.clone());
                domains.push((name, domain));
            }
            Err(found) => mistakes.extend(found),
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let book = RuleBook::new(version, domains)?;
    let meters = metrics.meters(&book);
    Ok(Active { book: Arc::new(book), meters, files, homes })
}

/// Domains that had rules and have none now.
fn domains_missing_from<'o>(old: &'o RuleBook, new: &RuleBook) -> Vec<&'o str> {
    let limited =
        |book: &RuleBook, name: &str| book.domains.get(name).is_some_and(|held| !held.rules.is_empty());
    let names = old.domains.keys().map(|name| &**name);
    names.filter(|name| limited(old, name) && !limited(new, name)).collect()
}

fn replaced(files: &[RuleFile], path: &Path, text: &str) -> Vec<RuleFile> {
    let mut files: Vec<_> = files.iter().filter(|file| file.path != path).cloned().collect();
    files.push(RuleFile { path: path.to_owned(), text: text.to_owned() });
    files.sort();
    files
}

fn successor(version: RulesVersion) -> RulesVersion {
    RulesVersion(version.0.saturating_add(1))
}

fn domain_status(domain: &Domain) -> DomainStatus {
    DomainStatus {
        name: domain.name.to_string(),
        rules: domain.rules.len(),
        overrides: domain.rules.iter().map(|rule| rule.overrides.len()).sum(),
    }
}

#[cfg(test)]
mod tests;
