//! A part of a message that can't be used: where it stands, and what is wrong with it.

use std::fmt::Display;

/// A part of a message that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct PartError {
    /// Where it stands, as `nodes[3].standing`.
    pub path: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It must be there.
    #[error("it is absent, or of a kind that a later version added")]
    Absent,
    /// A number without a meaning.
    #[error("{0} is unknown to this version")]
    Unknown(i32),
    /// Bytes of a fixed length that have another.
    #[error("it has {found} bytes, not {expected}")]
    Length {
        /// As it came.
        found: usize,
        /// As it has to be.
        expected: usize,
    },
    /// A longer text than the bound.
    #[error("it has {found} bytes, {max} are the most")]
    TooLong {
        /// As it came.
        found: usize,
        /// The bound.
        max: usize,
    },
    /// More elements than the bound.
    #[error("{found} are too many, {max} are the most")]
    TooMany {
        /// As it came.
        found: usize,
        /// The bound.
        max: usize,
    },
    /// No elements where there has to be one.
    #[error("it is empty")]
    Empty,
    /// 0 where there has to be more.
    #[error("it is 0, or absent")]
    Zero,
    /// A larger number than there can be.
    #[error("{max} is the largest")]
    TooLarge {
        /// The largest.
        max: u64,
    },
    /// A position beyond the end of its list.
    #[error("{position} is no position in a list of {length}")]
    NoPosition {
        /// As it came.
        position: u32,
        /// Of the list.
        length: usize,
    },
    /// A column of another length than the one beside it.
    #[error("it has {found} elements, the column beside it has {expected}")]
    Columns {
        /// As it came.
        found: usize,
        /// Of the other.
        expected: usize,
    },
}

impl PartError {
    pub(crate) fn absent(path: &str) -> Self {
        Self { path: path.to_owned(), problem: Problem::Absent }
    }

    pub(crate) fn unknown(path: &str, number: i32) -> Self {
        Self { path: path.to_owned(), problem: Problem::Unknown(number) }
    }

    /// The same part, seen from the message around `whole`.
    pub(crate) fn within(self, whole: impl Display) -> Self {
        Self { path: format!("{whole}.{}", self.path), ..self }
    }
}

/// A part that has to be there.
pub(crate) fn required<T>(part: Option<T>, path: &str) -> Result<T, PartError> {
    part.ok_or_else(|| PartError::absent(path))
}

/// Every element by `convert`; an error says which one it is about.
pub(crate) fn each<P, T>(
    list: impl IntoIterator<Item = P>,
    path: &str,
    convert: impl Fn(P) -> Result<T, PartError>,
) -> Result<Vec<T>, PartError> {
    let convert =
        |(index, part)| convert(part).map_err(|error| error.within(format_args!("{path}[{index}]")));
    list.into_iter().enumerate().map(convert).collect()
}
