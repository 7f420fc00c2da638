//! Mistakes in a rule file: collected, not thrown, so that one run names them all.
//!
//! Invariant: every mistake has a place and says what to write instead. It never quotes more than a line of the file.

use std::fmt;

/// Most mistakes listed for one file. Past it the list ends with a line that says so: nobody reads further, and a file
/// of pure noise must not become a larger answer.
pub(super) const ERRORS_MAX: usize = 100;

/// Longest piece of a file that a message quotes, in characters; longer ones are cut with an ellipsis.
pub(super) const QUOTE_LEN_MAX: usize = 60;

/// A mistake in a rule file, where it is, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The file, as the caller named it.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// Path of the field, such as `limits[2].burst`; empty for the file as a whole.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead; empty when the message says it.
    pub fix: String,
}

impl fmt::Display for RuleError {
    /// `file:line:column: field: message; fix`, without the parts that are empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        if !self.fix.is_empty() {
            write!(f, "; {}", self.fix)?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleError {}

/// A place in a file: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    /// Where a file begins.
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// The mistakes of one file so far.
pub(super) struct Report<'f> {
    file: &'f str,
    errors: Vec<RuleError>,
}

impl<'f> Report<'f> {
    pub(super) fn new(file: &'f str) -> Self {
        Self { file, errors: Vec::new() }
    }

    /// Notes a mistake. Past [`ERRORS_MAX`] it is dropped; [`Report::into_errors`] says so.
    pub(super) fn add(&mut self, at: Place, field: &str, message: impl Into<String>, fix: impl Into<String>) {
        if self.errors.len() <= ERRORS_MAX {
            self.errors.push(RuleError {
                file: self.file.to_owned(),
                line: at.line,
                column: at.column,
                field: field.to_owned(),
                message: message.into(),
                fix: fix.into(),
            });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// All of them in the order of the file.
    pub(super) fn into_errors(mut self) -> Vec<RuleError> {
        let cut = self.errors.len() > ERRORS_MAX;
        self.errors.truncate(ERRORS_MAX);
        self.errors.sort_by_key(|error| (error.line, error.column));
        if cut && let Some(last) = self.errors.last().cloned() {
            let message = format!("more than {ERRORS_MAX} mistakes; the rest isn't listed");
            self.errors.push(RuleError {
                field: String::new(),
                message,
                fix: "mend these first".into(),
                ..last
            });
        }
        self.errors
    }
}

/// A piece of the file in quotes, cut to a length that a line can hold.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTE_LEN_MAX) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}

/// `did you mean X? ` when one of `known` is close to `word`, else nothing.
pub(super) fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    if word.len() > QUOTE_LEN_MAX {
        return String::new();
    }
    let distance_max = (word.chars().count() / 3).max(1);
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min()
        .map(|(_, candidate)| format!("did you mean {candidate}? "))
        .unwrap_or_default()
}
