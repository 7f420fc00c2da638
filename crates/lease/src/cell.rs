//! One key's current lease as atomics: what spending touches. One line of a processor's cache, key and all.
//!
//! Invariant: a token leaves the cell once, to a spender of the very key and before the deadline of the very lease that it
//! is of, and never after the wallet withdrew it. The wallet fills, withdraws and gives the cell to another key behind its
//! lock, so there is one such writer at a time. Each withdrawal counts the generation up, and so does each change of key:
//! all that a cell says in one generation is of one key, and a spender that read anything else's numbers fails its
//! compare-and-swap. What was withdrawn to be reported can't be put back either: by then its owner may know it as spent.
//!
//! Not here: where a key's cell is, which lease comes next, and anything else that looks further than one load.

use leasehold_model::planted::{self, Bug};
use leasehold_model::{BootTime, Key, Nanos};

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bits of the word that count tokens; above them stands the generation, which wraps after 16 million withdrawals. A
/// spender would have to sleep through exactly that many between two of its instructions to be fooled.
const TOKEN_BITS: u32 = 40;
/// The most tokens that a cell holds. What a lease has besides stays in the wallet until there is room.
pub(crate) const TOKENS_MAX: u64 = (1 << TOKEN_BITS) - 1;
/// Whose a cell is that is nobody's. It holds nothing, so that it makes no difference should a key be so by chance.
const NOBODY: Key = Key::MIN;

/// Room for what one key may spend now without asking anybody.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Cell {
    /// Whose it is. Written only while the word holds no token.
    key_high: AtomicU64,
    key_low: AtomicU64,
    /// Generation and tokens: one word, so that they change together.
    word: AtomicU64,
    /// When the lease ends, in nanoseconds of boot time. Written only while the word holds no token.
    deadline: AtomicU64,
    /// Until when nothing is to be had. Informs only: no token depends on it, nor on what follows.
    denied_until: AtomicU64,
    /// Units left at the owner and in the key's other leases when they were last heard of.
    beside: AtomicU64,
    /// When the counter will equal a fresh one.
    reset_at: AtomicU64,
    /// Below so many tokens the wallet wants to be told. What doesn't fit is far from low.
    low: AtomicU32,
    /// Units refused since the wallet last looked: demand, too. As many as fit.
    refused: AtomicU32,
}

/// A key's cell, or what was its cell: whoever holds it may find it empty, once the key has none or another.
#[derive(Clone, Copy, Debug)]
pub struct KeyCell<'a> {
    cell: &'a Cell,
    key: Key,
    slot: u32,
}

/// Which filling of a cell units were taken from; [`KeyCell::put_back`] takes them back as long as it is the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    slot: u32,
    count: u32,
}

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
        /// What is known of the counter besides.
        known: Known,
    },
    /// The cell holds fewer units than that.
    Short,
    /// The lease is over, or there is none.
    Over,
}

/// What was last heard of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Units that the owner and the key's other leases had: with what [`Spend::Taken`] says is left, an estimate of what
    /// remains.
    pub beside: u64,
    /// Time until the counter equals a fresh one.
    pub reset_after: Nanos,
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
    /// Nobody's.
    pub(crate) fn new() -> Self {
        Self::of(([0; 7], [0; 2]))
    }

    /// One that says this.
    fn of((words, halves): ([u64; 7], [u32; 2])) -> Self {
        let [key_high, key_low, word, deadline, denied_until, beside, reset_at] = words.map(AtomicU64::new);
        let [low, refused] = halves.map(AtomicU32::new);
        Self { key_high, key_low, word, deadline, denied_until, beside, reset_at, low, refused }
    }

    /// Whose it is, to its wallet.
    pub(crate) fn key(&self) -> Key {
        Key { high: self.key_high.load(Ordering::Relaxed), low: self.key_low.load(Ordering::Relaxed) }
    }

    /// Whether it is this key's now. Of what follows in a thread, nothing is older than that.
    #[inline]
    pub(crate) fn is_of(&self, key: Key) -> bool {
        self.key_low.load(Ordering::Acquire) == key.low && self.key_high.load(Ordering::Acquire) == key.high
    }

    /// Makes it a key's. It is nobody's until now.
    pub(crate) fn open(&self, key: Key) {
        debug_assert_eq!(self.key(), NOBODY, "a cell is left before it is another's");
        for number in [&self.deadline, &self.denied_until, &self.beside, &self.reset_at] {
            number.store(0, Ordering::Release);
        }
        for number in [&self.low, &self.refused] {
            number.store(0, Ordering::Relaxed);
        }
        // What was said in the generation before was the last key's, or nothing.
        self.next_generation();
        self.set_key(key);
    }

    /// Makes it nobody's, and says how many tokens it still had.
    pub(crate) fn vacate(&self) -> u64 {
        let tokens = self.next_generation();
        self.set_key(NOBODY);
        tokens
    }

    fn set_key(&self, key: Key) {
        self.key_high.store(key.high, Ordering::Release);
        self.key_low.store(key.low, Ordering::Release);
    }

    /// Takes all tokens out, and says how many. Only the wallet that holds the lock.
    fn next_generation(&self) -> u64 {
        let generation = self.word.load(Ordering::Relaxed) >> TOKEN_BITS;
        let next = generation.wrapping_add(1) << TOKEN_BITS;
        self.word.swap(next, Ordering::AcqRel) & TOKENS_MAX
    }

    #[inline]
    fn known(&self, now: BootTime) -> Known {
        let reset_at = BootTime(self.reset_at.load(Ordering::Acquire));
        Known { beside: self.beside.load(Ordering::Acquire), reset_after: reset_at.since(now) }
    }
}

impl<'a> KeyCell<'a> {
    pub(crate) const fn new(cell: &'a Cell, key: Key, slot: u32) -> Self {
        Self { cell, key, slot }
    }

    /// Takes `cost` units if the key's lease has them and `now` is before its end. A cost of 0 peeks: it is answered as 1
    /// would be, and takes nothing.
    #[inline]
    #[must_use]
    pub fn spend(self, cost: u64, now: BootTime) -> Spend {
        let cell = self.cell;
        // Each acquire-load orders what follows it: a key or a deadline older than the word can't be read after the word,
        // and a younger one means that the word has changed, on which the exchange fails.
        let mut word = cell.word.load(Ordering::Acquire);
        loop {
            let over = now.0 >= cell.deadline.load(Ordering::Acquire) && !planted::is(Bug::NoExpiryCheck);
            if over || !cell.is_of(self.key) {
                return Spend::Over;
            }
            let tokens = word & TOKENS_MAX;
            if tokens < cost.max(1) {
                return Spend::Short;
            }
            let (known, low) = (cell.known(now), cell.low.load(Ordering::Relaxed));
            let exchanged = match cost {
                0 => Self::unchanged(cell.word.load(Ordering::Acquire), word),
                _ => cell.word.compare_exchange_weak(word, word - cost, Ordering::AcqRel, Ordering::Acquire),
            };
            match exchanged {
                Ok(_) => {
                    let left = tokens - cost;
                    let low = left < u64::from(low);
                    return Spend::Taken { left, low, generation: self.generation(word), known };
                }
                Err(changed) => word = changed,
            }
        }
    }

    const fn unchanged(now: u64, then: u64) -> Result<u64, u64> {
        if now == then { Ok(now) } else { Err(now) }
    }

    #[inline]
    fn generation(self, word: u64) -> Generation {
        let count = u32::try_from(word >> TOKEN_BITS).expect("24 bits of the word");
        Generation { slot: self.slot, count }
    }

    /// Puts back units that [`KeyCell::spend`] took and nobody used. `false`: the wallet has looked at that filling since;
    /// ask it ([`Wallet::handle_put_back`](crate::Wallet::handle_put_back)).
    #[must_use]
    pub fn put_back(self, cost: u64, from: Generation) -> bool {
        let mut word = self.cell.word.load(Ordering::Acquire);
        while self.generation(word) == from {
            match self.cell.word.compare_exchange_weak(word, word + cost, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return true,
                Err(changed) => word = changed,
            }
        }
        false
    }

    /// Whether the key is known to have nothing at `now`. Counts `cost` as demand that was refused. Ask after
    /// [`KeyCell::spend`] took nothing.
    #[must_use]
    pub fn refuse(self, cost: u64, now: BootTime) -> Option<Denial> {
        let (denied_until, known) =
            self.read(|cell| (BootTime(cell.denied_until.load(Ordering::Acquire)), cell.known(now)))?;
        let retry_after = denied_until.since(now);
        if retry_after == Nanos::ZERO {
            return None;
        }
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let add = |refused: u32| Some(refused.saturating_add(cost));
        // Should the cell become another key's right now, that one's demand is thought to be so much higher.
        let _was = self.cell.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        Some(Denial { retry_after, reset_after: known.reset_after.max(retry_after) })
    }

    /// What is known of the key's counter; nothing if the cell is another's.
    #[must_use]
    pub fn known(self, now: BootTime) -> Known {
        self.read(|cell| cell.known(now)).unwrap_or_default()
    }

    /// Reads what was said of this key within one generation.
    fn read<T>(self, read: impl Fn(&Cell) -> T) -> Option<T> {
        let cell = self.cell;
        let mut word = cell.word.load(Ordering::Acquire);
        while cell.is_of(self.key) {
            let said = read(cell);
            let after = cell.word.load(Ordering::Acquire);
            if after >> TOKEN_BITS == word >> TOKEN_BITS {
                return Some(said);
            }
            word = after;
        }
        None
    }

    /// Takes all tokens out and says how many there were. From here on no spender gets one of them.
    pub(crate) fn withdraw(self) -> u64 {
        self.cell.next_generation()
    }

    /// Puts in tokens of a lease that ends at `deadline`. The cell was withdrawn from and not filled since.
    pub(crate) fn fill(self, tokens: u64, deadline: BootTime, low: u64) -> Generation {
        let word = self.cell.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & TOKENS_MAX, 0, "a cell is withdrawn from before it is filled");
        debug_assert!(tokens <= TOKENS_MAX, "a cell is filled with as many as fit");
        self.set_low(low);
        self.cell.deadline.store(deadline.0, Ordering::Release);
        self.cell.word.store(word | tokens, Ordering::Release);
        self.generation(word)
    }

    /// Tokens in it now.
    pub(crate) fn tokens(self) -> u64 {
        self.cell.word.load(Ordering::Acquire) & TOKENS_MAX
    }

    /// From how few tokens on the wallet wants to be told; 0: not at all.
    pub(crate) fn set_low(self, low: u64) {
        self.cell.low.store(u32::try_from(low).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Until when nothing is to be had.
    pub(crate) fn deny(self, until: BootTime) {
        self.cell.denied_until.store(until.0, Ordering::Release);
    }

    /// What is known of the counter besides the tokens in here.
    pub(crate) fn inform(self, beside: u64, reset_at: BootTime) {
        self.cell.beside.store(beside, Ordering::Release);
        self.cell.reset_at.store(reset_at.0, Ordering::Release);
    }

    /// Units refused since the last call.
    pub(crate) fn take_refused(self) -> u64 {
        u64::from(self.cell.refused.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
impl Cell {
    /// All that is in it.
    fn numbers(&self) -> ([u64; 7], [u32; 2]) {
        let Self { key_high, key_low, word, deadline, denied_until, beside, reset_at, low, refused } = self;
        let words = [key_high, key_low, word, deadline, denied_until, beside, reset_at];
        let words = words.map(|atomic| atomic.load(Ordering::Relaxed));
        (words, [low, refused].map(|atomic| atomic.load(Ordering::Relaxed)))
    }

    /// Another that says the same.
    pub(crate) fn copy(&self) -> Self {
        Self::of(self.numbers())
    }
}

/// Alike are those that say the same.
#[cfg(test)]
impl std::hash::Hash for KeyCell<'_> {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.cell.numbers().hash(hasher);
    }
}
