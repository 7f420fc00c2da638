//! One key's current lease as atomics: what spending touches.
//!
//! Invariant: a token leaves the cell once, to a spender that saw the deadline of the very lease that it is of, and never
//! after the wallet withdrew it. The wallet fills and withdraws behind its lock, so there is one such writer at a time;
//! each withdrawal counts the generation up, and a spender that read another lease's numbers fails its compare-and-swap.
//! What was withdrawn to be reported can't be put back either: by then its owner may know it as spent.
//!
//! Not here: which lease comes next, and anything else that looks further than one load.

use leasehold_model::planted::{self, Bug};
use leasehold_model::{BootTime, Nanos};

use crate::sync::{AtomicU64, Ordering};

/// Bits of the word that count tokens; above them stands the generation, which wraps after 16 million withdrawals. A
/// spender would have to sleep through exactly that many between two of its instructions to be fooled.
const TOKEN_BITS: u32 = 40;
/// The most tokens that a cell holds. What a lease has besides stays in the wallet until there is room.
pub(crate) const TOKENS_MAX: u64 = (1 << TOKEN_BITS) - 1;

/// What one key may spend now without asking anybody. Shared between threads; see the [module](crate) for who does what.
#[derive(Debug)]
pub struct Cell {
    /// Generation and tokens: one word, so that they change together.
    word: AtomicU64,
    /// When the lease ends, in nanoseconds of boot time. Written only while the word holds no token.
    deadline: AtomicU64,
    /// Below so many tokens the wallet wants to be told.
    low: AtomicU64,
    /// Until when nothing is to be had. Informs only: no token depends on it, nor on what follows.
    denied_until: AtomicU64,
    /// Units refused since the wallet last looked: demand, too.
    refused: AtomicU64,
    /// Units left at the owner and in the key's other leases when they were last heard of.
    beside: AtomicU64,
    /// When the counter will equal a fresh one.
    reset_at: AtomicU64,
}

/// Which filling of a cell units were taken from; [`Cell::put_back`] takes them back as long as it is the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

/// What became of an attempt to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spend {
    /// The units are the caller's.
    Taken {
        /// Tokens left in the cell.
        left: u64,
        /// It is time for the wallet to look ([`Wallet::handle_low`](crate::Wallet::handle_low)), as soon as its lock is free.
        low: bool,
        /// Where they came from.
        generation: Generation,
    },
    /// The cell holds fewer units than that.
    Short,
    /// The lease is over, or there is none.
    Over,
}

/// A refusal that was heard of before and still stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// How long it stands.
    pub retry_after: Nanos,
    /// Time until the counter equals a fresh one, as far as is known.
    pub reset_after: Nanos,
}

impl Cell {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            low: AtomicU64::new(0),
            denied_until: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            beside: AtomicU64::new(0),
            reset_at: AtomicU64::new(0),
        }
    }

    /// Takes `cost` units if the lease has them and `now` is before its end. A cost of 0 peeks: it is answered as 1 would
    /// be, and takes nothing.
    #[must_use]
    pub fn spend(&self, cost: u64, now: BootTime) -> Spend {
        // Each acquire-load orders what follows it: a deadline older than the word can't be read after the word, and a
        // younger one means that the word has changed, on which the exchange fails.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let over = now.0 >= self.deadline.load(Ordering::Acquire);
            if over && !planted::is(Bug::NoExpiryCheck) {
                return Spend::Over;
            }
            let tokens = word & TOKENS_MAX;
            if tokens < cost.max(1) {
                return Spend::Short;
            }
            let exchanged = match cost {
                0 => Ok(word),
                _ => self.word.compare_exchange_weak(word, word - cost, Ordering::AcqRel, Ordering::Acquire),
            };
            match exchanged {
                Ok(_) => {
                    let left = tokens - cost;
                    let low = left < self.low.load(Ordering::Relaxed);
                    return Spend::Taken { left, low, generation: Generation(word >> TOKEN_BITS) };
                }
                Err(changed) => word = changed,
            }
        }
    }

    /// Puts back units that [`Cell::spend`] took and nobody used. `false`: the wallet has looked at that filling since;
    /// ask it ([`Wallet::handle_put_back`](crate::Wallet::handle_put_back)).
    #[must_use]
    pub fn put_back(&self, cost: u64, from: Generation) -> bool {
        let mut word = self.word.load(Ordering::Acquire);
        while word >> TOKEN_BITS == from.0 {
            match self.word.compare_exchange_weak(word, word + cost, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(changed) => word = changed,
            }
        }
        false
    }

    /// Whether the key is known to have nothing at `now`. Counts `cost` as demand that was refused. Ask after
    /// [`Cell::spend`] took nothing.
    #[must_use]
    pub fn refuse(&self, cost: u64, now: BootTime) -> Option<Denial> {
        let retry_after = BootTime(self.denied_until.load(Ordering::Relaxed)).since(now);
        if retry_after == Nanos::ZERO {
            return None;
        }
        self.refused.fetch_add(cost, Ordering::Relaxed);
        Some(Denial { retry_after, reset_after: self.reset_after(now).max(retry_after) })
    }

    /// Units that the owner and the key's other leases had when last heard of: with what [`Spend::Taken`] says is left, an
    /// estimate of what remains.
    #[must_use]
    pub fn beside(&self) -> u64 {
        self.beside.load(Ordering::Relaxed)
    }

    /// Time until the counter equals a fresh one, as far as is known.
    #[must_use]
    pub fn reset_after(&self, now: BootTime) -> Nanos {
        BootTime(self.reset_at.load(Ordering::Relaxed)).since(now)
    }

    /// Takes all tokens out and says how many there were. From here on no spender gets one of them.
    pub(crate) fn withdraw(&self) -> u64 {
        let generation = self.word.load(Ordering::Relaxed) >> TOKEN_BITS;
        let next = generation.wrapping_add(1) << TOKEN_BITS;
        self.word.swap(next, Ordering::AcqRel) & TOKENS_MAX
    }

    /// Puts in tokens of a lease that ends at `deadline`. The cell was withdrawn from and not filled since.
    pub(crate) fn fill(&self, tokens: u64, deadline: BootTime, low: u64) -> Generation {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & TOKENS_MAX, 0, "a cell is withdrawn from before it is filled");
        debug_assert!(tokens <= TOKENS_MAX, "a cell is filled with as many as fit");
        self.low.store(low, Ordering::Relaxed);
        self.deadline.store(deadline.0, Ordering::Release);
        self.word.store(word | tokens, Ordering::Release);
        Generation(word >> TOKEN_BITS)
    }

    /// Tokens in it now.
    pub(crate) fn tokens(&self) -> u64 {
        self.word.load(Ordering::Acquire) & TOKENS_MAX
    }

    /// From how few tokens on the wallet wants to be told; 0: not at all.
    pub(crate) fn set_low(&self, low: u64) {
        self.low.store(low, Ordering::Relaxed);
    }

    /// Until when nothing is to be had.
    pub(crate) fn deny(&self, until: BootTime) {
        self.denied_until.store(until.0, Ordering::Relaxed);
    }

    /// What is known of the counter besides the tokens in here.
    pub(crate) fn inform(&self, beside: u64, reset_at: BootTime) {
        self.beside.store(beside, Ordering::Relaxed);
        self.reset_at.store(reset_at.0, Ordering::Relaxed);
    }

    /// Units refused since the last call.
    pub(crate) fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// All that is in it.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> [u64; 7] {
        let Self { word, deadline, low, denied_until, refused, beside, reset_at } = self;
        [word, deadline, low, denied_until, refused, beside, reset_at]
            .map(|atomic| atomic.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn of(numbers: [u64; 7]) -> Self {
        let [word, deadline, low, denied_until, refused, beside, reset_at] = numbers.map(AtomicU64::new);
        Self { word, deadline, low, denied_until, refused, beside, reset_at }
    }
}
