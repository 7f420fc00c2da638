//! A YAML text as a small tree in which every node knows its line and column.
//!
//! Invariant: a tree is at most [`DEPTH_MAX`] deep, holds no key twice in one map, and is no larger than its text: what
//! multiplies (anchors, aliases) or changes meaning (tags, several documents) is refused. Scalars stay text; what they
//! mean is for the reader of the field to say.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::error::{Place, Report, quoted};

/// Bytes of one rule file. A longer one is refused unread: rules are written by people, and every node keeps them.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Deepest nesting. Rules need six levels; past it the file is refused.
pub(super) const DEPTH_MAX: usize = 16;

/// Most keys in one map. No map of a rule file needs more; a duplicate is looked for among all of them.
pub(super) const MAP_LEN_MAX: usize = 128;

/// One value and where it is.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Text, as it counts after quotes and escapes.
    Scalar(String),
    /// Nothing, `~` or `null`, unquoted.
    Null,
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// It was reported already: whoever meets it says nothing.
    Refused,
}

/// One key and its value in a map.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Place,
    pub(super) node: Node,
}

impl Value {
    /// What it is, in words for a message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Scalar(_) => "a single value",
            Self::Null => "nothing",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Refused => "refused",
        }
    }
}

/// Reads one document. `None` when there is nothing to read further, with the reason in `report`.
pub(super) fn parse(text: &str, report: &mut Report<'_>) -> Option<Node> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file has {} bytes, more than {FILE_BYTES_MAX}", text.len());
        report.add(Place::START, "", message, "split the rules over several domains");
        return None;
    }
    let mut builder = Builder { report, open: Vec::new(), root: None, documents: 0 };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.take(event, place(&span.start))?,
            Err(error) => {
                let fix = syntax_fix(error.info());
                builder.report.add(place(error.marker()), "", error.info(), fix);
                return None;
            }
        }
    }
    if builder.root.is_none() && builder.report.is_empty() {
        builder.report.add(Place::START, "", "the file is empty", "write at least `domain` and `limits`");
    }
    builder.root
}

/// The parser speaks of anchors where somebody wrote a star for "any".
fn syntax_fix(info: &str) -> &'static str {
    if info.contains("anchor") {
        "a text that begins with * or & needs quotes, such as '*'"
    } else {
        "rules are YAML: mend the syntax at this place or just before it"
    }
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

/// Turns events into a tree without recursion: `open` holds the lists and maps that haven't ended.
struct Builder<'r, 'f> {
    report: &'r mut Report<'f>,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

struct Open {
    at: Place,
    inner: Inner,
}

enum Inner {
    List(Vec<Node>),
    /// The entries so far, and the key whose value comes next. `None` inside: a key that isn't text.
    Map(Vec<Entry>, Option<(Option<String>, Place)>),
}

impl Builder<'_, '_> {
    /// `None` when reading further makes no sense.
    fn take(&mut self, event: Event<'_>, at: Place) -> Option<()> {
        match event {
            Event::DocumentStart(_) => return self.begin_document(at),
            Event::Alias(_) => {
                let fix = "write the value out; a text that begins with * needs quotes";
                self.report.add(at, "", "an alias: anchors and aliases are not supported", fix);
                self.close(Node { at, value: Value::Refused });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_decoration(anchor, tag.is_some(), at);
                self.close(Node { at, value: scalar(&text, style) });
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_decoration(anchor, tag.is_some(), at);
                return self.open(Open { at, inner: Inner::List(Vec::new()) });
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_decoration(anchor, tag.is_some(), at);
                return self.open(Open { at, inner: Inner::Map(Vec::new(), None) });
            }
            Event::SequenceEnd | Event::MappingEnd => return self.end(at),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Some(())
    }

    fn begin_document(&mut self, at: Place) -> Option<()> {
        self.documents += 1;
        if self.documents > 1 {
            self.report.add(
                at,
                "",
                "a second document begins here",
                "write one domain a file, without `---`",
            );
            return None;
        }
        Some(())
    }

    fn refuse_decoration(&mut self, anchor: usize, tagged: bool, at: Place) {
        if anchor > 0 {
            let fix = "leave it out and write the value where it is used";
            self.report.add(at, "", "an anchor: anchors and aliases are not supported", fix);
        }
        if tagged {
            self.report.add(
                at,
                "",
                "a tag: tags are not supported",
                "leave it out, or put the text in quotes",
            );
        }
    }

    fn open(&mut self, open: Open) -> Option<()> {
        if self.open.len() >= DEPTH_MAX {
            let message = format!("nested deeper than {DEPTH_MAX} levels");
            self.report.add(open.at, "", message, "no field of a rule needs that");
            return None;
        }
        self.open.push(open);
        Some(())
    }

    fn end(&mut self, at: Place) -> Option<()> {
        let Some(open) = self.open.pop() else {
            self.report.add(at, "", "something ends here that never began", syntax_fix(""));
            return None;
        };
        let value = match open.inner {
            Inner::Map(entries, _) if entries.len() > MAP_LEN_MAX => {
                let message = format!("a map of more than {MAP_LEN_MAX} keys");
                self.report.add(open.at, "", message, "no field of a rule needs that");
                Value::Refused
            }
            Inner::List(items) => Value::List(items),
            Inner::Map(entries, _) => Value::Map(entries),
        };
        self.close(Node { at: open.at, value });
        Some(())
    }

    /// Puts a finished node where it belongs.
    fn close(&mut self, node: Node) {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut parent.inner {
            Inner::List(items) => items.push(node),
            Inner::Map(entries, pending) => match pending.take() {
                None => *pending = Some(key_of(node, self.report)),
                Some((None, _)) => {}
                Some(_) if entries.len() > MAP_LEN_MAX => {} // reported when the map ends
                Some((Some(key), at)) => match entries.iter().find(|entry| entry.key == key) {
                    Some(first) => {
                        let message =
                            format!("key {} is given twice, first in line {}", quoted(&key), first.at.line);
                        self.report.add(at, "", message, "keep one of them");
                    }
                    None => entries.push(Entry { key, at, node }),
                },
            },
        }
    }
}

fn key_of(node: Node, report: &mut Report<'_>) -> (Option<String>, Place) {
    let key = match node.value {
        Value::Scalar(text) => Some(text),
        Value::Refused => None,
        Value::Null | Value::List(_) | Value::Map(_) => {
            let message = format!("{} as a key", node.value.kind());
            report.add(
                node.at,
                "",
                message,
                "keys are plain names; a text that begins with { or [ needs quotes",
            );
            None
        }
    };
    (key, node.at)
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match (style, text) {
        (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
        _ => Value::Scalar(text.to_owned()),
    }
}
