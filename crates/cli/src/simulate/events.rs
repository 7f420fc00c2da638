//! Event files: one JSON object a line, in arrival order.

use std::io::BufRead;

use anyhow::{Context, Result, bail, ensure};
use leasehold_limit::Limit;
use leasehold_model::Stamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Number;

use super::policy::PolicyFile;

/// Events in one file: they are held in memory (at 200 bytes each, 400 MB). More are refused; split the file.
const EVENTS_MAX: usize = 2_000_000;
/// Bytes in one line, so that a file that isn't lines of JSON doesn't fill memory before the error.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Something that happens to a counter.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// When it arrives.
    pub(crate) at: Stamp,
    /// What arrives.
    pub(crate) what: What,
}

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A request for so many units; 0 looks, a negative cost is answered with an error.
    Take(i128),
    /// The limit's numbers change.
    SetPolicy(Limit),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    t_ns: u64,
    cost: Option<Number>,
    set_policy: Option<PolicyFile>,
    /// Files that carry right answers carry them here; they are not read.
    #[serde(rename = "expect")]
    _expect: Option<IgnoredAny>,
}

/// Reads events, one a line; empty lines are skipped.
///
/// # Errors
/// The first line that isn't an event, by number, with the field and the fix.
pub(crate) fn read(mut source: impl BufRead) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let limit = u64::try_from(LINE_BYTES_MAX + 1).expect("a small constant");
        let read = std::io::Read::take(&mut source, limit).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        ensure!(
            read <= LINE_BYTES_MAX,
            "line {number}: longer than {LINE_BYTES_MAX} bytes; write one event a line"
        );
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        ensure!(events.len() < EVENTS_MAX, "line {number}: more than {EVENTS_MAX} events; split the file");
        events.push(parse(text).with_context(|| format!("line {number}"))?);
    }
    Ok(events)
}

fn parse(text: &[u8]) -> Result<Event> {
    let line: Line = serde_json::from_slice(text)?;
    let what = match (line.cost, line.set_policy) {
        (Some(cost), None) => What::Take(
            cost.as_i128()
                .with_context(|| format!("cost: {cost} is no whole number from -2^63 to 2^64 - 1"))?,
        ),
        (None, Some(policy)) => What::SetPolicy(policy.limit().context("set_policy")?),
        (Some(_), Some(_)) => bail!("cost: an event has a cost or a set_policy, not both"),
        (None, None) => bail!("cost: missing; for example {{\"t_ns\": {}, \"cost\": 1}}", line.t_ns),
    };
    Ok(Event { at: Stamp(line.t_ns), what })
}
