//! What edges call themselves, for operators who look at leases: as long as they are connected to this node.
//!
//! Invariant: a name came from outside. It is bounded, and of characters that move no cursor and turn no direction.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_lease::EdgeId;
use parking_lot::Mutex;

/// Characters of a name that are kept; the rest is left out.
const CHARS_MAX: usize = 64;

/// See the module. There are as many as there are streams, and this node's own.
#[derive(Debug, Default)]
pub(crate) struct EdgeNames(Mutex<BTreeMap<EdgeId, Named>>);

#[derive(Debug)]
struct Named {
    name: String,
    /// An edge that connects again is there twice for a moment.
    streams: usize,
}

/// An edge that is connected. Dropped, its name is forgotten.
#[derive(Debug)]
pub(crate) struct Greeted {
    names: Arc<EdgeNames>,
    edge: EdgeId,
}

impl EdgeNames {
    /// Keeps a name until the edge is gone.
    pub(crate) fn greet(self: &Arc<Self>, edge: EdgeId, name: &str) -> Greeted {
        self.keep(edge, name);
        Greeted { names: Arc::clone(self), edge }
    }

    /// Keeps a name for good.
    pub(crate) fn keep(&self, edge: EdgeId, name: &str) {
        let mut names = self.0.lock();
        let named = names.entry(edge).or_insert_with(|| Named { name: String::new(), streams: 0 });
        named.name = printable(name);
        named.streams += 1;
    }

    /// An edge's name, if it is connected and has one.
    pub(crate) fn of(&self, edge: EdgeId) -> Option<String> {
        self.0.lock().get(&edge).map(|named| named.name.clone()).filter(|name| !name.is_empty())
    }
}

impl Drop for Greeted {
    fn drop(&mut self) {
        let mut names = self.names.0.lock();
        let Some(named) = names.get_mut(&self.edge) else { return };
        named.streams -= 1;
        if named.streams == 0 {
            names.remove(&self.edge);
        }
    }
}

/// A name from outside as it may be shown: what ASCII prints, anything else a question mark.
pub(crate) fn printable(name: &str) -> String {
    let shown = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    name.trim().chars().take(CHARS_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_as_long_as_its_edge_is_connected() {
        let names = Arc::new(EdgeNames::default());
        let first = names.greet(EdgeId(1), "gateway");
        let again = names.greet(EdgeId(1), "gateway");
        drop(first);
        assert_eq!(names.of(EdgeId(1)).as_deref(), Some("gateway"));
        drop(again);
        assert_eq!(names.of(EdgeId(1)), None);
        let _nameless = names.greet(EdgeId(2), "");
        assert_eq!(names.of(EdgeId(2)), None);
    }

    #[test]
    fn a_name_moves_no_cursor_and_fills_no_screen() {
        assert_eq!(printable(" a\x1b[2J\u{202e}b\n "), "a?[2J?b");
        assert_eq!(printable(&"x".repeat(300)).len(), CHARS_MAX);
    }
}
