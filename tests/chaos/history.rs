//! What happened in a run, as JSONL: written while it goes on, read again by whoever checks or draws it.
//!
//! A history is all that the checks and the report have: they never talk to a process. Its first line is `run`, `rules` come
//! before the checks under them, and everything else comes in any order. A run that wants to be checked closely ends with peeks
//! (cost 0) of the keys whose limits hardly refill while it lasts, in `calm`, at the owner: what is used of them is compared
//! with what was admitted.

mod event;
mod names;
mod reader;
#[cfg(test)]
pub(crate) mod sample;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use thiserror::Error;

pub(crate) use event::{
    Algorithm, Check, Event, Fault, FaultPhase, Lent, Limit, OnUnavailable, Outcome, Phase, PhaseName,
    Reached, Resolved, Rules, Run, Shard, Source, State,
};
pub(crate) use names::{Name, Names};
pub(crate) use reader::{ReadError, Reader};
pub(crate) use writer::Writer;

/// A run, in memory. Names are numbers here: a run has millions of checks and few names.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) run: Run,
    /// By their versions as they came.
    pub(crate) rules: Vec<Rules>,
    /// As they came.
    pub(crate) calls: Vec<Call>,
    /// By request id.
    pub(crate) resolved: BTreeMap<Name, Found>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) states: Vec<State>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) reached: Vec<Reached>,
    names: Names,
    /// Sets of keys that requests had, each once.
    key_sets: Vec<Vec<Name>>,
    key_set_of: BTreeMap<Vec<Name>, KeySet>,
    /// `domain/limit` of all versions.
    limits: BTreeSet<(String, String)>,
}

/// The keys of a request: a place in [`History::keys`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeySet(usize);

/// A [`Check`] in few bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) invoked: u64,
    pub(crate) returned: Option<u64>,
    pub(crate) door: Name,
    pub(crate) keys: KeySet,
    pub(crate) cost: u64,
    pub(crate) id: Option<Name>,
    pub(crate) outcome: Outcome,
    pub(crate) degraded: bool,
    pub(crate) source: Option<Source>,
    pub(crate) remaining: Option<u64>,
}

/// What the log says of a request whose outcome was unknown.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// It was charged by then.
    pub(crate) at: u64,
    /// To these; to none if empty.
    pub(crate) charged: Vec<Name>,
}

/// Why there is nothing to check.
#[derive(Debug, Error)]
pub(crate) enum HistoryError {
    /// The file.
    #[error("open the history {path}")]
    Open { path: String, source: io::Error },
    /// A line.
    #[error("{path}")]
    Read { path: String, source: ReadError },
    /// What lines say doesn't fit together.
    #[error("{path}: line {line}: {field}: {problem}")]
    Wrong { path: String, line: u64, field: &'static str, problem: String },
}

/// A field, and what is wrong with it in view of what came before.
type Wrong = (&'static str, String);

impl History {
    /// Reads a file.
    ///
    /// # Errors
    /// When it can't be read, or isn't a history: with the line and the field.
    pub(crate) fn read(path: &Path) -> Result<Self, HistoryError> {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|source| HistoryError::Open { path: shown.clone(), source })?;
        Self::read_from(BufReader::with_capacity(1 << 20, file), &shown)
    }

    /// Reads what is called `path`.
    ///
    /// # Errors
    /// As [`History::read`].
    pub(crate) fn read_from(input: impl BufRead, path: &str) -> Result<Self, HistoryError> {
        let mut history = Self::default();
        let mut reader = Reader::new(input);
        while let Some(event) = reader.next() {
            let event = event.map_err(|source| HistoryError::Read { path: path.to_owned(), source })?;
            history.add(event).map_err(|(field, problem)| HistoryError::Wrong {
                path: path.to_owned(),
                line: reader.line(),
                field,
                problem,
            })?;
        }
        if history.run.scenario.is_empty() {
            let (line, field, problem) = (1, "run.scenario", "no line says what was run".to_owned());
            return Err(HistoryError::Wrong { path: path.to_owned(), line, field, problem });
        }
        Ok(history)
    }

    /// Takes one event in.
    ///
    /// # Errors
    /// When it contradicts itself or what came before: the field and why. Nothing is taken in then.
    pub(crate) fn add(&mut self, event: Event) -> Result<(), Wrong> {
        match event {
            Event::Run(run) => self.run = run,
            Event::Rules(rules) => {
                let name = |limit: &Limit| (limit.domain.clone(), limit.name.clone());
                if let Some(limit) = rules.limits.iter().find(|limit| limit.period_ns == 0) {
                    return Err(("rules.limits.period_ns", format!("0 of {}/{}", limit.domain, limit.name)));
                }
                self.limits.extend(rules.limits.iter().map(name));
                self.rules.push(rules);
            }
            Event::Check(check) => {
                let call = self.call(&check)?;
                self.calls.push(call);
            }
            Event::Log(resolved) => {
                let charged = self.key_names(&resolved.charged, "log.charged")?;
                let id = self.names.of(&resolved.id);
                self.resolved.insert(id, Found { at: resolved.at, charged });
            }
            Event::Fault(fault) => self.faults.push(fault),
            Event::State(state) => self.states.push(state),
            Event::Phase(phase) => self.phases.push(phase),
            Event::Reached(reached) => self.reached.push(reached),
        }
        Ok(())
    }

    fn call(&mut self, check: &Check) -> Result<Call, Wrong> {
        if let Some(returned) = check.returned
            && returned < check.invoked
        {
            return Err(("check.returned", format!("{returned} is before {}, invoked", check.invoked)));
        }
        if check.outcome != Outcome::Unknown && check.returned.is_none() {
            return Err(("check.returned", "absent although there was an outcome".to_owned()));
        }
        let keys = self.key_names(&check.keys, "check.keys")?;
        let next = KeySet(self.key_sets.len());
        let keys = *self.key_set_of.entry(keys).or_insert_with_key(|keys| {
            self.key_sets.push(keys.clone());
            next
        });
        Ok(Call {
            invoked: check.invoked,
            returned: check.returned,
            door: self.names.of(&check.door),
            keys,
            cost: check.cost,
            id: check.id.as_ref().map(|id| self.names.of(id)),
            outcome: check.outcome,
            degraded: check.degraded,
            source: check.source,
            remaining: check.remaining,
        })
    }

    fn key_names(&mut self, keys: &[String], field: &'static str) -> Result<Vec<Name>, Wrong> {
        let name = |key: &String| {
            if let Some(known) = self.names.find(key) {
                return Ok(known);
            }
            let (limit, _) = key.split_once('=').unwrap_or((key, ""));
            let known = limit
                .split_once('/')
                .is_some_and(|(domain, name)| self.limits.contains(&(domain.to_owned(), name.to_owned())));
            match known {
                true => Ok(self.names.of(key)),
                false => Err((field, format!("{key}: no such limit in the rules before"))),
            }
        };
        keys.iter().map(name).collect()
    }

    /// What a name is.
    pub(crate) fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// The name of something, if the history mentions it.
    pub(crate) fn name(&self, text: &str) -> Option<Name> {
        self.names.find(text)
    }

    /// The keys of a request.
    pub(crate) fn keys(&self, set: KeySet) -> &[Name] {
        &self.key_sets[set.0]
    }

    /// The limit that a key counts under in some rules.
    pub(crate) fn limit<'a>(&self, key: Name, rules: &'a Rules) -> Option<&'a Limit> {
        let (limit, _) = self.text(key).split_once('=').unwrap_or((self.text(key), ""));
        let (domain, name) = limit.split_once('/')?;
        rules.limits.iter().find(|limit| limit.domain == domain && limit.name == name)
    }

    /// When a phase began, if it did.
    pub(crate) fn began(&self, phase: PhaseName) -> Option<u64> {
        self.phases.iter().filter(|begun| begun.name == phase).map(|begun| begun.at).min()
    }

    /// The last moment of anything.
    pub(crate) fn end(&self) -> u64 {
        let calls = self.calls.iter().map(|call| call.returned.unwrap_or(call.invoked)).max();
        let states = self.states.iter().map(|state| state.at).max();
        let phases = self.phases.iter().map(|phase| phase.at).max();
        calls.max(states).max(phases).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
