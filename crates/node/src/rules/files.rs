//! Rules that this node reads from files, and writes to them when an operator changes them.
//!
//! Invariants: the version counts up by one at each accepted change and at nothing else; whoever changes rules (watcher,
//! SIGHUP, operator) holds `change` meanwhile, so that no change is lost and an operator's own write is not taken for
//! somebody else's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_front::AdminError;
use leasehold_limit::KeySecret;
use leasehold_limit::rules::RuleError;
use leasehold_model::{RulesVersion, Stamp};
use parking_lot::Mutex;

use super::source::{ReadError, RuleFile, Source};
use super::{Active, RulesInForce, store};
use crate::authority::Line;
use crate::metrics::Metrics;

/// The rules of a node that runs alone, and how they change.
#[derive(Debug)]
pub(crate) struct FileRules {
    in_force: Arc<RulesInForce>,
    source: Source,
    /// Tells since when a rule set is in force. `None`: each always was.
    line: Option<Line>,
    /// Held by whoever changes rules.
    change: Mutex<Known>,
}

/// What is known of the files.
#[derive(Debug)]
struct Known {
    /// Those that were last looked at, in force or refused. `None`: they could not be read.
    seen: Option<Vec<RuleFile>>,
    /// Those that the rules in force were made from.
    accepted: Vec<RuleFile>,
    /// Which of these holds which domain.
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

/// Why there are no rules to start with.
#[derive(Debug)]
pub(crate) enum LoadError {
    Read(ReadError),
    Mistakes(Vec<RuleError>),
}

impl FileRules {
    /// Reads the first rules: without them a node doesn't start. Warns now and at each change while `fallback_domain` has
    /// no rules.
    pub(crate) fn load(
        source: Source,
        secret: KeySecret,
        metrics: Arc<Metrics>,
        fallback_domain: Option<String>,
    ) -> Result<Self, LoadError> {
        let files = source.read().map_err(LoadError::Read)?;
        let in_force = RulesInForce::unknown(source.to_string(), secret, metrics, fallback_domain);
        let (first, homes) = build(&in_force, &files, RulesVersion(1)).map_err(LoadError::Mistakes)?;
        in_force.begin(first);
        let known = Known { seen: Some(files.clone()), accepted: files, homes };
        Ok(Self { in_force: Arc::new(in_force), source, line: None, change: Mutex::new(known) })
    }

    /// These, with later sets in force since what `line` says when they are swapped in.
    pub(crate) fn since_by(self, line: Line) -> Self {
        Self { line: Some(line), ..self }
    }

    /// The rules in force.
    pub(crate) fn in_force(&self) -> &Arc<RulesInForce> {
        &self.in_force
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
        let mut known = self.change.lock();
        self.catch_up(&mut known);
        let current = self.in_force.version();
        if let Some(expected) = expected.filter(|expected| *expected != current) {
            return Err(AdminError::Conflict { expected, current });
        }
        let domain = self.in_force.parse(text).map_err(AdminError::Invalid)?;
        let path = self.source.path_for(&domain.name, &known.homes)?;
        let active = self.in_force.active();
        let held = active.as_ref().and_then(|active| active.book.domains.get(&domain.name));
        if held.is_some_and(|held| *held.source == *text) {
            return Ok(current);
        }
        let files = replaced(self.others(known.seen.as_deref())?, &path, text);
        let (next, homes) = self.build(&files).map_err(AdminError::Invalid)?;
        store::write(&path, text)?;
        *known = Known { seen: Some(files.clone()), accepted: files, homes };
        Ok(self.accept(next))
    }

    /// Removes one domain's file and takes its rules out of force. Blocks on the disk.
    pub(crate) fn remove(
        &self,
        domain: &str,
        expected: Option<RulesVersion>,
    ) -> Result<RulesVersion, AdminError> {
        let mut known = self.change.lock();
        self.catch_up(&mut known);
        let current = self.in_force.version();
        if let Some(expected) = expected.filter(|expected| *expected != current) {
            return Err(AdminError::Conflict { expected, current });
        }
        self.in_force.knows(domain)?;
        let path = self.source.path_to_remove(domain, &known.homes)?;
        let seen = self.others(known.seen.as_deref())?;
        let files: Vec<_> = seen.iter().filter(|file| file.path != path).cloned().collect();
        if files.is_empty() {
            return Err(AdminError::ReadOnly(format!(
                "{} is the last rule file of its folder: an empty one is taken for one that isn't mounted",
                path.display()
            )));
        }
        let (next, homes) = self.build(&files).map_err(AdminError::Invalid)?;
        store::remove(&path)?;
        *known = Known { seen: Some(files.clone()), accepted: files, homes };
        Ok(self.accept(next))
    }

    /// The files that one is replaced among. A folder that can't be read hides the limits of other domains; a file that
    /// can't be read holds nothing but what is replaced.
    fn others<'a>(&self, seen: Option<&'a [RuleFile]>) -> Result<&'a [RuleFile], AdminError> {
        match (seen, &self.source) {
            (Some(files), _) => Ok(files),
            (None, Source::File(_) | Source::BuiltIn) => Ok(&[]),
            (None, Source::Folder(_)) => {
                let history = self.in_force.history.lock();
                let why = history.mistakes.first().map(ToString::to_string).unwrap_or_default();
                Err(AdminError::Failed(format!("the other rules cannot be read: {why}")))
            }
        }
    }

    fn catch_up(&self, known: &mut Known) -> Reload {
        let files = match self.source.read() {
            Ok(files) => files,
            Err(error) => {
                known.seen = None;
                return self.refuse(vec![error.into_mistake()]);
            }
        };
        if known.seen.as_ref() == Some(&files) {
            return Reload::Unchanged;
        }
        known.seen = Some(files.clone());
        if files == known.accepted {
            self.in_force.history.lock().mistakes.clear();
            tracing::info!(version = %self.in_force.version(), "the rules on disk are again those in force");
            return Reload::Unchanged;
        }
        match self.build(&files) {
            Ok((next, homes)) => {
                (known.accepted, known.homes) = (files, homes);
                Reload::Accepted(self.accept(next))
            }
            Err(mistakes) => self.refuse(mistakes),
        }
    }

    fn build(&self, files: &[RuleFile]) -> Result<Built, Vec<RuleError>> {
        let version = RulesVersion(self.in_force.version().0.saturating_add(1));
        build(&self.in_force, files, version)
    }

    fn accept(&self, mut next: Active) -> RulesVersion {
        Arc::make_mut(&mut next.book).since = self.line.as_ref().map_or(Stamp::ZERO, Line::now);
        self.in_force.accept(next)
    }

    fn refuse(&self, mistakes: Vec<RuleError>) -> Reload {
        if self.in_force.refuse(mistakes) { Reload::Refused } else { Reload::Unchanged }
    }
}

type Built = (Active, BTreeMap<Arc<str>, PathBuf>);

fn build(
    in_force: &RulesInForce,
    files: &[RuleFile],
    version: RulesVersion,
) -> Result<Built, Vec<RuleError>> {
    let texts = files.iter().map(|file| (file.path.display().to_string(), &*file.text));
    let (active, names) = in_force.build(version, Stamp::ZERO, &in_force.secret(), None, texts)?;
    let homes = names.into_iter().zip(files).map(|(name, file)| (name, file.path.clone()));
    Ok((active, homes.collect()))
}

fn replaced(files: &[RuleFile], path: &Path, text: &str) -> Vec<RuleFile> {
    let mut files: Vec<_> = files.iter().filter(|file| file.path != path).cloned().collect();
    files.push(RuleFile { path: path.to_owned(), text: text.to_owned() });
    files.sort();
    files
}
