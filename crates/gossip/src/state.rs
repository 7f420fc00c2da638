//! What a node says of itself, as short key/value texts.
//!
//! Invariant: encoding a checked [`Profile`] and decoding it gives the same one; any other texts decode to what is
//! sound in them, and what isn't is counted, never trusted. Unknown keys are left alone: a later level may add some.

mod digits;
mod hints;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use leasehold_model::{NodeId, RulesVersion};

/// Groups that hints may speak of: 0 up to this, exclusive. Others are not told and not believed.
pub const GROUPS_MAX: u32 = 1_024;

/// Hints that one node tells. Those of the lowest groups are told, the rest isn't.
pub const HINTS_MAX: usize = 256;

/// The longest name, zone or region, in bytes.
const NAME_MAX: usize = 64;

/// The longest address, in bytes: a full host name and a port.
const ADDRESS_MAX: usize = 260;

const NAME: &str = "n";
const PEER: &str = "p";
const CLIENT: &str = "c";
const ZONE: &str = "z";
const REGION: &str = "r";
const LEVEL: &str = "v";
const RULES: &str = "u";
const LOAD: &str = "l";
const LEFT: &str = "x";

/// Who leads a group, as some node believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderHint {
    /// The leader.
    pub leader: NodeId,
    /// In which term. Of two hints the one with the later term is the better guess.
    pub term: u64,
}

/// How busy a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Processor use in thousandths of one core.
    pub cpu_millicores: u64,
    /// Counters it holds.
    pub keys: u64,
    /// Decisions in the last second.
    pub decisions_per_second: u64,
    /// Groups it leads.
    pub leading: u64,
}

/// Everything a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// What a person calls it: 1 to 64 bytes.
    pub name: Arc<str>,
    /// Where peers reach it: `host:port`.
    pub peer_address: Arc<str>,
    /// Where clients reach it: `host:port`.
    pub client_address: Arc<str>,
    /// What fails together; may be empty.
    pub zone: Arc<str>,
    /// What is near each other; may be empty.
    pub region: Arc<str>,
    /// The protocol level it speaks.
    pub level: u32,
    /// The rules it decides by.
    pub rules: RulesVersion,
    /// How busy it is.
    pub load: Load,
    /// Whom it believes to lead which group.
    pub hints: BTreeMap<u32, LeaderHint>,
}

/// A field of a [`Profile`] or a configuration that cannot be told to others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fix}")]
pub struct FieldError {
    /// Which.
    pub field: &'static str,
    /// What it must be.
    pub fix: &'static str,
}

/// What could be made of a node's texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// None until its name and addresses are known.
    pub(crate) profile: Option<Profile>,
    /// Whether it said that it is leaving.
    pub(crate) left: bool,
    /// Texts that were not what their key promises.
    pub(crate) bad: u64,
}

impl Profile {
    /// Checks what others will be told.
    ///
    /// # Errors
    /// The first field that others would not believe.
    pub fn check(&self) -> Result<(), FieldError> {
        let fail = |field, fix| Err(FieldError { field, fix });
        if !is_name(&self.name) || self.name.is_empty() {
            return fail("name", "use 1 to 64 bytes without control characters");
        }
        if !is_address(&self.peer_address) {
            return fail("peer_address", "use host:port with a port above 0");
        }
        if !is_address(&self.client_address) {
            return fail("client_address", "use host:port with a port above 0");
        }
        if !is_name(&self.zone) {
            return fail("zone", "use at most 64 bytes without control characters");
        }
        if !is_name(&self.region) {
            return fail("region", "use at most 64 bytes without control characters");
        }
        Ok(())
    }

    /// The texts that tell it, by key. `own` is the node it speaks of.
    pub(crate) fn encode(&self, own: NodeId) -> BTreeMap<String, String> {
        let load = self.load;
        let numbers = [load.cpu_millicores, load.keys, load.decisions_per_second, load.leading];
        let mut texts: BTreeMap<String, String> = [
            (NAME, self.name.to_string()),
            (PEER, self.peer_address.to_string()),
            (CLIENT, self.client_address.to_string()),
            (ZONE, self.zone.to_string()),
            (REGION, self.region.to_string()),
            (LEVEL, digits::write(u64::from(self.level))),
            (RULES, digits::write(self.rules.0)),
            (LOAD, numbers.map(digits::write).join(".")),
        ]
        .map(|(key, text)| (key.to_owned(), text))
        .into();
        texts.extend(hints::encode(&self.hints, own));
        texts
    }
}

/// The key and text by which a node says that it is leaving.
pub(crate) const LEAVING: (&str, &str) = (LEFT, "1");

/// Makes what it can of the texts that `of` is said to have told.
pub(crate) fn decode<'a>(of: NodeId, texts: impl Iterator<Item = (&'a str, &'a str)>) -> Decoded {
    let mut profile = Profile::default();
    let mut decoded = Decoded::default();
    for (key, text) in texts {
        let sound = match key {
            NAME => keep(&mut profile.name, text, is_name),
            PEER => keep(&mut profile.peer_address, text, is_address),
            CLIENT => keep(&mut profile.client_address, text, is_address),
            ZONE => keep(&mut profile.zone, text, is_name),
            REGION => keep(&mut profile.region, text, is_name),
            LEVEL => digits::read(text)
                .and_then(|level| u32::try_from(level).ok())
                .map(|level| profile.level = level)
                .is_some(),
            RULES => digits::read(text).map(|version| profile.rules = RulesVersion(version)).is_some(),
            LOAD => read_load(text).map(|load| profile.load = load).is_some(),
            LEFT => {
                decoded.left = text == LEAVING.1;
                decoded.left
            }
            _ => hints::decode(key, text, of, &mut profile.hints),
        };
        decoded.bad += u64::from(!sound);
    }
    while profile.hints.len() > HINTS_MAX {
        profile.hints.pop_last();
        decoded.bad += 1;
    }
    decoded.profile = Some(profile).filter(|profile| profile.check().is_ok());
    decoded
}

fn keep(field: &mut Arc<str>, text: &str, sound: fn(&str) -> bool) -> bool {
    let sound = sound(text);
    if sound {
        *field = text.into();
    }
    sound
}

fn read_load(text: &str) -> Option<Load> {
    let mut numbers = text.split('.').map(digits::read);
    let mut next = || numbers.next().flatten();
    let load =
        Load { cpu_millicores: next()?, keys: next()?, decisions_per_second: next()?, leading: next()? };
    numbers.next().is_none().then_some(load)
}

/// Text that a person may be shown: bounded, and nothing in it moves a cursor.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= NAME_MAX && !text.chars().any(char::is_control)
}

/// `host:port`, where host is a name or an address (IPv6 in brackets) and the port isn't 0. Not whether it exists.
pub(crate) fn is_address(text: &str) -> bool {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return address.port() != 0;
    }
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    text.len() <= ADDRESS_MAX
        && !host.is_empty()
        && host.bytes().all(is_host)
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port != 0)
}
