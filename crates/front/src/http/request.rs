//! JSON in: bodies of `/v1/check`, `/v1/peek` and `/v1/reset` become checked requests.
//!
//! ```json
//! {"domain": "api", "attributes": {"path": "/login", "ip": "203.0.113.7"}, "cost": 1, "request_id": "7f3a"}
//! ```
//!
//! `attributes` is an object, or a list of `[name, value]` pairs or of `{"name", "value"}` objects, which may carry raw
//! bytes as `value_base64`. `descriptors` in its place is a list of `{"attributes", "cost"}` that are charged together or
//! not at all. `{"checks": [...]}` is a batch of such bodies, each decided on its own, in order.
//!
//! What is wrong is an error that names the field; nothing is guessed, cut or ignored.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leasehold_limit::check::{Attribute, Descriptor, Request};

use super::json::{Json, Path};
use crate::{CheckError, Decider, bounds};

/// One check, with its text still where the caller's body has it.
pub(super) struct Check<'a> {
    domain: Cow<'a, str>,
    parts: Vec<Part<'a>>,
    request_id: Option<Cow<'a, str>>,
}

/// One descriptor of a check.
struct Part<'a> {
    attributes: Attributes<'a>,
    cost: u64,
}

type Attributes<'a> = Vec<(Cow<'a, str>, Cow<'a, [u8]>)>;

/// A body of `/v1/check` or `/v1/peek`.
pub(super) enum Body<'a> {
    One(Check<'a>),
    /// A mistake in one item is that item's own answer.
    Batch(Vec<Result<Check<'a>, CheckError>>),
}

/// A body of `/v1/reset`.
pub(super) struct Reset<'a> {
    pub(super) domain: Cow<'a, str>,
    pub(super) rule: Option<Cow<'a, str>>,
    attributes: Attributes<'a>,
}

/// Whether a request takes units or only looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Takes them; a cost of 0 looks.
    Check,
    /// Only looks; a cost other than 0 is refused.
    Peek,
}

/// Reads a body of `/v1/check` or `/v1/peek`.
///
/// # Errors
/// [`CheckError::Invalid`] names the field and the fix.
pub(super) fn parse(body: &[u8], mode: Mode) -> Result<Body<'_>, CheckError> {
    let json = Json::parse(body)?;
    let is_batch = matches!(&json, Json::Object(fields) if fields.iter().any(|(name, _)| name == "checks"));
    if !is_batch {
        return Check::parse(json, mode).map(Body::One);
    }
    let [checks] = json.fields(&Path::Root, ["checks"])?;
    let at = Path::Root.field("checks");
    let checks = checks.ok_or_else(|| at.missing("a list of checks"))?;
    let checks = checks.list(&at, bounds::BATCH_MAX, "checks")?;
    if checks.is_empty() {
        return Err(bounds::invalid("checks", "it is empty; send at least one check"));
    }
    Ok(Body::Batch(checks.into_iter().map(|check| Check::parse(check, mode)).collect()))
}

impl<'a> Check<'a> {
    fn parse(json: Json<'a>, mode: Mode) -> Result<Self, CheckError> {
        let root = Path::Root;
        let [domain, attributes, cost, descriptors, request_id] =
            json.fields(&root, ["domain", "attributes", "cost", "descriptors", "request_id"])?;
        let domain = domain_of(domain)?;
        let parts = match descriptors {
            None => vec![Part::parse(&root, attributes, cost, mode)?],
            Some(_) if attributes.is_some() || cost.is_some() => {
                let message = "it stands beside attributes or cost; put those into each descriptor";
                return Err(bounds::invalid("descriptors", message));
            }
            Some(list) => descriptors_of(list, &root.field("descriptors"), mode)?,
        };
        let request_id = request_id.map(|id| id.text(&root.field("request_id"))).transpose()?;
        if let Some(id) = &request_id {
            bounds::request_id(id)?;
        }
        Ok(Self { domain, parts, request_id })
    }

    /// Gives it the id from a header, unless it has the same one already.
    ///
    /// # Errors
    /// Two different ids.
    pub(super) fn identify(&mut self, id: &'a str) -> Result<(), CheckError> {
        bounds::request_id(id)?;
        match &self.request_id {
            Some(own) if own != id => Err(bounds::invalid(
                "request_id",
                "it differs from the header Idempotency-Key; send one of them",
            )),
            Some(_) => Ok(()),
            None => {
                self.request_id = Some(Cow::Borrowed(id));
                Ok(())
            }
        }
    }

    /// Whether it takes nothing.
    pub(super) fn is_peek(&self) -> bool {
        self.parts.iter().all(|part| part.cost == 0)
    }

    /// The request to decide.
    ///
    /// # Errors
    /// A bound on attributes.
    pub(super) fn request<D: Decider>(&self, decider: &D) -> Result<Request<'_>, CheckError> {
        let several = self.parts.len() > 1;
        let mut descriptors = Vec::with_capacity(self.parts.len());
        for (index, part) in self.parts.iter().enumerate() {
            let attributes = borrow(&part.attributes);
            if several {
                bounds::attributes(format_args!("descriptors[{index}].attributes"), &attributes)?;
            } else {
                bounds::attributes("attributes", &attributes)?;
            }
            descriptors.push(Descriptor { attributes, cost: part.cost, limit_override: None });
        }
        // A peek takes nothing: there is nothing to remember under an id.
        let request_id = match &self.request_id {
            Some(id) if !self.is_peek() => Some(decider.request_id(&self.domain, id)),
            Some(_) | None => None,
        };
        Ok(Request { domain: &self.domain, descriptors, request_id })
    }
}

fn borrow<'s>(attributes: &'s Attributes<'_>) -> Vec<Attribute<'s>> {
    attributes.iter().map(|(name, value)| Attribute { name, value }).collect()
}

impl<'a> Part<'a> {
    fn parse(
        at: &Path<'_>,
        attributes: Option<Json<'a>>,
        cost: Option<Json<'a>>,
        mode: Mode,
    ) -> Result<Self, CheckError> {
        let attributes = attributes_of(attributes, &at.field("attributes"))?;
        let at_cost = at.field("cost");
        let cost = cost.map(|cost| cost.whole(&at_cost)).transpose()?;
        let cost = match (mode, cost) {
            (Mode::Check, cost) => cost.unwrap_or(1),
            (Mode::Peek, None | Some(0)) => 0,
            (Mode::Peek, Some(_)) => {
                let message = "a peek takes nothing; leave it out and compare with remaining";
                return Err(bounds::invalid(at_cost.to_string(), message));
            }
        };
        Ok(Self { attributes, cost })
    }
}

impl<'a> Reset<'a> {
    /// Reads a body of `/v1/reset`.
    ///
    /// # Errors
    /// [`CheckError::Invalid`] names the field and the fix.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, CheckError> {
        let root = Path::Root;
        let [domain, attributes, rule] =
            Json::parse(body)?.fields(&root, ["domain", "attributes", "rule"])?;
        let reset = Self {
            domain: domain_of(domain)?,
            rule: rule.map(|rule| rule.text(&root.field("rule"))).transpose()?,
            attributes: attributes_of(attributes, &root.field("attributes"))?,
        };
        if reset.rule.as_deref() == Some("") {
            return Err(bounds::invalid("rule", "it is empty; name a rule or leave it out for all of them"));
        }
        bounds::attributes("attributes", &reset.attributes())?;
        Ok(reset)
    }

    pub(super) fn attributes(&self) -> Vec<Attribute<'_>> {
        borrow(&self.attributes)
    }
}

fn domain_of(json: Option<Json<'_>>) -> Result<Cow<'_, str>, CheckError> {
    let at = Path::Root.field("domain");
    let domain = json.ok_or_else(|| at.missing("the domain of the rules to apply"))?.text(&at)?;
    bounds::domain(&domain)?;
    Ok(domain)
}

fn descriptors_of<'a>(json: Json<'a>, at: &Path<'_>, mode: Mode) -> Result<Vec<Part<'a>>, CheckError> {
    let list = json.list(at, bounds::DESCRIPTORS_MAX, "descriptors")?;
    if list.is_empty() {
        return Err(bounds::invalid(at.to_string(), "it is empty; send at least one descriptor"));
    }
    let mut parts = Vec::with_capacity(list.len());
    for (index, item) in list.into_iter().enumerate() {
        let at = at.index(index);
        let [attributes, cost] = item.fields(&at, ["attributes", "cost"])?;
        parts.push(Part::parse(&at, attributes, cost, mode)?);
    }
    Ok(parts)
}

fn attributes_of<'a>(json: Option<Json<'a>>, at: &Path<'_>) -> Result<Attributes<'a>, CheckError> {
    let json = json.ok_or_else(|| at.missing("an object of names and values"))?;
    let kind = json.kind();
    let attributes: Attributes<'a> = if let Json::Object(fields) = json {
        let field = |(name, value): (Cow<'a, str>, Json<'a>)| {
            let value = value.text(&at.field(&name))?;
            Ok((name, bytes_of(value)))
        };
        fields.into_iter().map(field).collect::<Result<_, CheckError>>()?
    } else if let Json::List(items) = json {
        let item = |(index, item)| attribute_of(item, &at.index(index));
        items.into_iter().enumerate().map(item).collect::<Result<_, CheckError>>()?
    } else {
        return Err(at.wrong("an object of names and values, or a list of pairs", kind));
    };
    if attributes.is_empty() {
        return Err(bounds::invalid(at.to_string(), "it is empty; send at least one name and value"));
    }
    Ok(attributes)
}

/// One item of an attribute list: a pair, or an object.
fn attribute_of<'a>(item: Json<'a>, at: &Path<'_>) -> Result<(Cow<'a, str>, Cow<'a, [u8]>), CheckError> {
    let item = match item.pair() {
        Ok([name, value]) => return Ok((name.text(&at.index(0))?, bytes_of(value.text(&at.index(1))?))),
        Err(item @ Json::List(_)) => return Err(at.wrong("a pair [name, value]", item.kind())),
        Err(item) => item,
    };
    let [name, value, encoded] = item.fields(at, ["name", "value", "value_base64"])?;
    let at_name = at.field("name");
    let name = name.ok_or_else(|| at_name.missing("the attribute's name"))?.text(&at_name)?;
    let at_encoded = at.field("value_base64");
    let value = match (value, encoded) {
        (Some(value), None) => bytes_of(value.text(&at.field("value"))?),
        (None, Some(encoded)) => decode(&encoded.text(&at_encoded)?, &at_encoded)?,
        (Some(_), Some(_)) => {
            return Err(bounds::invalid(at_encoded.to_string(), "it stands beside value; send one of them"));
        }
        (None, None) => return Err(at.field("value").missing("a string, or raw bytes as value_base64")),
    };
    Ok((name, value))
}

fn decode<'a>(encoded: &str, at: &Path<'_>) -> Result<Cow<'a, [u8]>, CheckError> {
    STANDARD.decode(encoded).map(Cow::Owned).map_err(|_| {
        bounds::invalid(at.to_string(), "it is not base64; use the standard alphabet with padding")
    })
}

fn bytes_of(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}
