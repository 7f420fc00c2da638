//! A JSON value as it was sent, judged only afterwards: so an error can name the field by its path, an object keeps its
//! order, and a number keeps what was wrong with it.
//!
//! Text is borrowed from the body where it holds no escapes. Depth is bounded by `serde_json`'s recursion limit (128),
//! size by the body's. It knows no field of any request.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::{CheckError, bounds};

/// What was sent.
pub(super) enum Json<'a> {
    Null,
    Bool,
    Whole(u64),
    Negative,
    Fraction,
    TooLarge,
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Characters of a caller's own text that an error repeats.
const ECHO_CHARS_MAX: usize = 64;

impl<'a> Json<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// [`CheckError::Invalid`] with line and column when it isn't JSON.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, CheckError> {
        serde_json::from_slice(body).map_err(|error| {
            bounds::invalid("body", format!("it is not valid JSON: {error}; send one JSON object"))
        })
    }

    /// The value in words, for errors.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Whole(_) => "a number",
            Self::Negative => "a negative number",
            Self::Fraction => "a number with a fraction or exponent",
            Self::TooLarge => "a number beyond 64 bits",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// The text it must be.
    pub(super) fn text(self, at: &Path<'_>) -> Result<Cow<'a, str>, CheckError> {
        let kind = self.kind();
        let Self::Text(text) = self else { return Err(at.wrong("a string", kind)) };
        Ok(text)
    }

    /// The list it must be.
    pub(super) fn list(self, at: &Path<'_>, max: usize, unit: &str) -> Result<Vec<Self>, CheckError> {
        let kind = self.kind();
        let Self::List(items) = self else { return Err(at.wrong("a list", kind)) };
        if items.len() > max {
            bounds::at_most(at.to_string(), items.len(), max, unit)?;
        }
        Ok(items)
    }

    /// The two items of a list of two; anything else comes back.
    pub(super) fn pair(self) -> Result<[Self; 2], Self> {
        let Self::List(items) = self else { return Err(self) };
        items.try_into().map_err(Self::List)
    }

    /// The whole number it must be.
    pub(super) fn whole(self, at: &Path<'_>) -> Result<u64, CheckError> {
        let kind = self.kind();
        let Self::Whole(number) = self else {
            return Err(at.wrong("a whole number from 0 to 18446744073709551615", kind));
        };
        Ok(number)
    }

    /// The object it must be, taken apart into its known fields; `null` counts as absent.
    ///
    /// # Errors
    /// [`CheckError::Invalid`] for another kind of value, an unknown field, or a field that is there twice.
    pub(super) fn fields<const N: usize>(
        self,
        at: &Path<'_>,
        known: [&'static str; N],
    ) -> Result<[Option<Self>; N], CheckError> {
        let kind = self.kind();
        let Self::Object(fields) = self else { return Err(at.wrong("an object", kind)) };
        let mut found = [const { None }; N];
        let mut seen = [false; N];
        for (name, value) in fields {
            let Some(slot) = known.iter().position(|known| *known == name) else {
                let message =
                    format!("it is not a field of this request; the fields are {}", known.join(", "));
                return Err(bounds::invalid(at.field(&name).to_string(), message));
            };
            if std::mem::replace(&mut seen[slot], true) {
                return Err(bounds::invalid(
                    at.field(known[slot]).to_string(),
                    "it is there twice; send it once",
                ));
            }
            if !matches!(value, Self::Null) {
                found[slot] = Some(value);
            }
        }
        Ok(found)
    }
}

/// A caller's own text in an error: short, and without control characters.
pub(super) fn echo(text: &str) -> String {
    text.chars().take(ECHO_CHARS_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Where in a body a value is: a list of steps on the stack, turned into text only for an error.
pub(super) enum Path<'p> {
    /// The body, or one item of a batch.
    Root,
    /// A field of an object.
    Field(&'p Path<'p>, &'p str),
    /// An item of a list.
    Index(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    pub(super) const fn field(&'p self, name: &'p str) -> Self {
        Self::Field(self, name)
    }

    pub(super) const fn index(&'p self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// An error that says what belongs here and what was found.
    pub(super) fn wrong(&self, wanted: &str, found: &str) -> CheckError {
        bounds::invalid(self.to_string(), format!("it is {found}; send {wanted}"))
    }

    /// An error that says what is missing here.
    pub(super) fn missing(&self, wanted: &str) -> CheckError {
        bounds::invalid(self.to_string(), format!("it is missing; send {wanted}"))
    }
}

impl fmt::Display for Path<'_> {
    /// `checks[2].attributes`; the root alone is `body`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("body"),
            Self::Field(Self::Root, name) => f.write_str(&echo(name)),
            Self::Field(parent, name) => write!(f, "{parent}.{}", echo(name)),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor)
    }
}

/// Text that is borrowed where it can be.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Json::Whole(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(u64::try_from(number).map_or(Json::Negative, Json::Whole))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // serde_json reads whole numbers beyond 64 bits as floats; only what is said about them hangs on this.
        const BEYOND: f64 = 18_446_744_073_709_551_616.0;
        Ok(match number {
            n if n < 0.0 => Json::Negative,
            n if n >= BEYOND => Json::TooLarge,
            _ => Json::Fraction,
        })
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((Text(name), value)) = map.next_entry()? {
            fields.push((name, value));
        }
        Ok(Json::Object(fields))
    }
}
