//! Clocks of nodes that are moved from outside: libfaketime, and a file a node that it reads.

use std::fs;
use std::io;
use std::path::PathBuf;

use tempfile::TempDir;

/// One file a node. The library itself is preloaded by whoever starts the node.
#[derive(Debug)]
pub struct Clocks {
    folder: TempDir,
    monotonic_too: bool,
}

impl Clocks {
    /// Nobody's clock is moved yet. `monotonic_too`: clocks that only count are faked as well, so that a rate has a meaning;
    /// otherwise only the calendar moves.
    ///
    /// # Errors
    /// When no temporary folder can be made.
    pub fn new(monotonic_too: bool) -> io::Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, monotonic_too })
    }

    /// A node's clock is so far ahead from now on: `+3600`, or with a rate that counts from its next start, `+0 x1.02`.
    ///
    /// # Panics
    /// When the temporary folder can't be written to.
    pub fn set(&self, node: usize, offset: &str) {
        // Renamed into place: a reader sees the old offset or the new one.
        let (file, new) = (self.file(node), self.folder.path().join("new"));
        fs::write(&new, offset)
            .and_then(|()| fs::rename(&new, &file))
            .expect("the temporary folder can be written to");
    }

    /// What a node is started with beside the library. Its clock is right until it is set.
    ///
    /// # Panics
    /// As [`Clocks::set`].
    #[must_use]
    pub fn variables(&self, node: usize) -> Vec<(String, String)> {
        let file = self.file(node);
        if !file.exists() {
            self.set(node, "+0");
        }
        let mut variables = vec![("FAKETIME_TIMESTAMP_FILE", file.display().to_string())];
        if !self.monotonic_too {
            // Read at each reading of a clock: a step is seen at once. A rate counts from the start, and clocks that only count
            // are read far too often for that.
            variables.push(("FAKETIME_NO_CACHE", "1".to_owned()));
            variables.push(("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()));
        }
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn file(&self, node: usize) -> PathBuf {
        self.folder.path().join(node.to_string())
    }
}
