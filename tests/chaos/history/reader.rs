//! Histories from JSONL, line by line: a mistake is told with its line and its field.

use std::io::{self, BufRead};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::event::Event;

/// A line of a check with many keys is some hundred bytes. A longer one than this isn't a history's.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Why a history can't be read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// The file.
    #[error("line {line}")]
    Io { line: u64, source: io::Error },
    /// A line that is no event.
    #[error("line {line}: {problem}")]
    Line { line: u64, problem: String },
    /// A field that is missing or isn't what it should be.
    #[error("line {line}: {field}: {problem}")]
    Field { line: u64, field: String, problem: String },
}

/// The events of a history in the order of its lines. Ends after the first mistake.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    input: R,
    text: String,
    line: u64,
    failed: bool,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, text: String::new(), line: 0, failed: false }
    }

    /// The line of the event that came last, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    fn read(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            self.text.clear();
            self.line += 1;
            let line = self.line;
            let read = io::Read::take(&mut self.input, LINE_BYTES_MAX as u64).read_line(&mut self.text);
            match read.map_err(|source| ReadError::Io { line, source })? {
                0 => return Ok(None),
                LINE_BYTES_MAX => {
                    let problem = format!("longer than {LINE_BYTES_MAX} bytes");
                    return Err(ReadError::Line { line, problem });
                }
                _ if self.text.trim().is_empty() => {}
                _ => return event(self.text.trim(), line).map(Some),
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let event = self.read().transpose();
        self.failed = matches!(event, Some(Err(_)));
        event
    }
}

/// What all events have.
#[derive(Deserialize)]
struct Tagged {
    event: String,
}

fn event(text: &str, line: u64) -> Result<Event, ReadError> {
    // Nearly every line is a check, and is written with the tag first.
    if text.starts_with(r#"{"event":"check","#) {
        return fields(text, line, "check").map(Event::Check);
    }
    let tagged: Tagged = serde_json::from_str(text)
        .map_err(|error| ReadError::Line { line, problem: format!("not an event: {error}") })?;
    let name = tagged.event.as_str();
    match name {
        "run" => fields(text, line, name).map(Event::Run),
        "rules" => fields(text, line, name).map(Event::Rules),
        "check" => fields(text, line, name).map(Event::Check),
        "log" => fields(text, line, name).map(Event::Log),
        "fault" => fields(text, line, name).map(Event::Fault),
        "state" => fields(text, line, name).map(Event::State),
        "phase" => fields(text, line, name).map(Event::Phase),
        "reached" => fields(text, line, name).map(Event::Reached),
        _ => Err(ReadError::Line { line, problem: format!("no such event: {name}") }),
    }
}

fn fields<T: DeserializeOwned>(text: &str, line: u64, event: &str) -> Result<T, ReadError> {
    // Following the path takes as long again, and is needed for mistakes only.
    serde_json::from_str(text).or_else(|_| {
        let json = &mut serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(json).map_err(|error| {
            let path = error.path().to_string();
            // Serde names the struct itself so.
            let field = if path == "." { event.to_owned() } else { format!("{event}.{path}") };
            let said = error.inner().to_string();
            // It counts from this line.
            let problem =
                said.rsplit_once(" at line ").map_or(said.as_str(), |(problem, _)| problem).to_owned();
            ReadError::Field { line, field, problem }
        })
    })
}
