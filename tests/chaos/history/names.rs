//! Names as numbers: each text once.

use std::collections::HashMap;

/// A text that a history mentions. Only the history that gave it knows which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(u32);

/// All texts.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Vec<Box<str>>,
    found: HashMap<Box<str>, Name>,
}

impl Names {
    /// The name of a text, new or known.
    pub(super) fn of(&mut self, text: &str) -> Name {
        if let Some(known) = self.find(text) {
            return known;
        }
        let name =
            Name(u32::try_from(self.texts.len()).expect("a run has fewer names than checks fit in memory"));
        self.texts.push(text.into());
        self.found.insert(text.into(), name);
        name
    }

    pub(super) fn find(&self, text: &str) -> Option<Name> {
        self.found.get(text).copied()
    }

    pub(super) fn text(&self, name: Name) -> &str {
        usize::try_from(name.0).ok().and_then(|place| self.texts.get(place)).map_or("", AsRef::as_ref)
    }
}
