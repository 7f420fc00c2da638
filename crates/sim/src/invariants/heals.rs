//! P5, heals: after faults end everything is served again with no operator, replicas come to the same, and what limits let
//! through is what they say: a counter that is asked for twice its rate admits its rate.

use super::Findings;
use crate::clocks::Time;

/// Of what a limit lets through while it is calm, in thousandths, so much must be admitted of the counter that only clients
/// ask for: nothing of it is ever lent. It begins full, and its burst is a second's worth.
const ADMITTED_LEAST: u64 = 960;

/// Entries that a follower may lack when the world ends: wallets still tell what they spent.
const LAG_MAX: u64 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Heals {
    admitted: u64,
    undecided: u64,
    decided: u64,
    first: Option<Time>,
}

impl Heals {
    /// A request was answered while it is calm, by anybody.
    pub(crate) fn answered(&mut self, decided: bool) {
        self.decided += u64::from(decided);
        self.undecided += u64::from(!decided);
    }

    /// A unit of the counter that is probed was asked for, and given or not.
    pub(crate) fn probed(&mut self, admitted: bool, now: Time) {
        self.first.get_or_insert(now);
        self.admitted += u64::from(admitted);
    }

    /// At the end: what the probed limit lets through a second, and where each replica of each group has come to.
    pub(crate) fn finish(
        &self,
        n: u64,
        probed_until: Time,
        replicas: &[(usize, usize, u64, bool)],
        now: Time,
        findings: &mut Findings,
    ) {
        if self.decided == 0 {
            findings.add("heals", now, || "nobody was answered although it was calm".to_owned());
        }
        if self.undecided > 0 {
            findings.add("heals", now, || {
                format!(
                    "{} of {} requests had no answer although it was calm",
                    self.undecided,
                    self.undecided + self.decided
                )
            });
        }
        let span = probed_until.saturating_sub(self.first.unwrap_or(probed_until));
        let refills = u64::try_from(u128::from(n) * u128::from(span) / 1_000_000_000).unwrap_or(u64::MAX);
        let lets = refills.saturating_add(n);
        if self.admitted * 1_000 < lets * ADMITTED_LEAST {
            findings.add("heals", now, || {
                format!("a counter let {} pass while its limit lets {lets}", self.admitted)
            });
        }
        for group in 0..=replicas.iter().map(|(group, ..)| *group).max().unwrap_or(0) {
            let of = replicas.iter().filter(|(of, ..)| *of == group);
            let leaders = of.clone().filter(|(.., serves)| *serves).count();
            let most = of.clone().map(|(_, _, applied, _)| *applied).max().unwrap_or(0);
            let least = of.map(|(_, _, applied, _)| *applied).min().unwrap_or(0);
            if leaders != 1 || most - least > LAG_MAX {
                findings.add("heals", now, || {
                    format!(
                        "group {group} has {leaders} leaders; its replicas have applied {least} to {most}"
                    )
                });
            }
        }
    }
}
