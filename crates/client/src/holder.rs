//! The wallet of a process with many threads: what it holds of every key, and who waits for more.
//!
//! Invariant: whoever touches a stripe's wallet has, by the time the stripe is unlocked, taken out everything that
//! came of it; it is acted on right after. So no ask waits for another caller, and none is sent under a lock.
//!
//! What to hold, when to ask and whom to serve is the [`Wallet`]'s to say. Here are its locks, its clock, its timer and
//! its way to the upstream. A key's tokens are spent from its cell without a lock.

mod children;
mod numbers;
mod pump;
mod stripe;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leasehold_decide::Terms;
use leasehold_lease::{
    Answer, Cells, Checked, Denial, Generation, Held, KeyCell, Known, Settings, Spend, Totals, Wallet,
};
use leasehold_limit::Decision;
use leasehold_model::{BootTime, Key};
use leasehold_shard::{LimitSpec, Refusal};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::set_aside::SetAside;
use crate::{Answers, Clock, Upstream};
pub(crate) use children::Lending;
use numbers::Numbers;
use stripe::{Stripe, Work};
pub(crate) use wait::Wait;

/// Wallets, each with a lock of its own. Many more than there are cores, so that two threads rarely meet at one; all of
/// them are looked through for the next timer.
const STRIPES: usize = 64;
const STRIPES_MASK: u128 = STRIPES as u128 - 1;

/// What an ask for a key needs on its way.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) spec: Arc<LimitSpec>,
    pub(crate) terms: Terms,
}

/// What a request that waited hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// What the wallet says.
    Answer(Answer),
    /// The owner refused to carry the ask out.
    Refused(Refusal),
    /// Too much was going on, and nothing was done.
    Overloaded,
}

/// What came of asking the wallet.
#[derive(Debug)]
pub(crate) enum Begun<'a, U: Upstream> {
    Answered(Answer),
    Waiting(Wait<'a, U>),
    /// It is full, or being emptied.
    NoRoom,
}

/// How long a request is worth waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Until(Instant),
    /// Only for what is held.
    None,
}

/// The wallet, and the task that keeps its time. The task ends with it.
#[derive(Debug)]
pub(crate) struct Holder<U: Upstream> {
    shared: Arc<Shared<U>>,
    _pump: AbortOnDropHandle<()>,
}

/// What callers and the pump share.
struct Shared<U> {
    upstream: Arc<U>,
    clock: Arc<dyn Clock>,
    stripes: Box<[Stripe]>,
    /// The stripes' cells, apart from what changes under their locks.
    cells: Box<[Arc<Cells>]>,
    /// Random but for the low bits, which are a stripe's number.
    session: u128,
    answers: Answers,
    set_aside: SetAside,
    numbers: Numbers,
    /// Until when the pump sleeps.
    asleep_until: AtomicU64,
    poke: Notify,
    /// How many stripes are known to hold nothing, once everything goes back.
    emptied: watch::Sender<usize>,
}

impl<U: Upstream> fmt::Debug for Shared<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<U: Upstream> Holder<U> {
    /// Holds nothing yet. The bounds of `settings` are those of the whole process.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn start(upstream: Arc<U>, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        let (answers, answered) = mpsc::unbounded_channel();
        let session = rand::random::<u128>() & !STRIPES_MASK;
        let each = Settings {
            keys_max: settings.keys_max.div_ceil(STRIPES),
            child_replies_max: settings.child_replies_max.div_ceil(STRIPES),
            ..settings
        };
        let edge = upstream.edge();
        let wallet = |number: u128| Wallet::new(edge, session | number, each);
        let wallets: Vec<_> = (0..=STRIPES_MASK).map(wallet).collect();
        let shared = Arc::new(Shared {
            upstream,
            clock,
            cells: wallets.iter().map(|wallet| Arc::clone(wallet.cells())).collect(),
            stripes: wallets.into_iter().map(Stripe::new).collect(),
            session,
            answers,
            set_aside: SetAside::default(),
            numbers: Numbers::new(rand::random()),
            asleep_until: AtomicU64::new(0),
            poke: Notify::new(),
            emptied: watch::Sender::new(0),
        });
        let pump = AbortOnDropHandle::new(tokio::spawn(pump::run(Arc::clone(&shared), answered)));
        Self { shared, _pump: pump }
    }

    /// Who is asked for what isn't held.
    pub(crate) fn upstream(&self) -> &U {
        &self.shared.upstream
    }

    /// What may be spent when nobody can be asked.
    pub(crate) fn set_aside(&self) -> &SetAside {
        &self.shared.set_aside
    }

    /// The time that leases are counted by.
    #[inline]
    pub(crate) fn now(&self) -> BootTime {
        self.shared.clock.boot()
    }

    /// Takes units out of a key's cell; `None` without one. Call [`Holder::low`] when the cell says so.
    #[inline]
    pub(crate) fn spend(&self, key: Key, cost: u64, now: BootTime) -> Option<Spent> {
        Some(Spent::from(self.shared.cells(key).find(key)?, cost, now))
    }

    /// A key's cell. It spends nothing once the key is no longer held; then ask again.
    pub(crate) fn cell(&self, key: Key) -> Option<Held> {
        self.shared.cells(key).hold(key)
    }

    /// What is known of a key's counter besides.
    pub(crate) fn known(&self, key: Key, now: BootTime) -> Known {
        self.shared.cells(key).find(key).map(|cell| cell.known(now)).unwrap_or_default()
    }

    /// A cell runs low. Whoever has the stripe's lock will notice as well, so it isn't waited for.
    pub(crate) fn low(&self, key: Key, now: BootTime) {
        self.shared.try_touch(key, now, |wallet| wallet.handle_low(key, now));
    }

    /// Asks the wallet for what the cell hadn't.
    pub(crate) fn check(&self, key: Key, way: &Way, cost: u64, patience: Patience) -> Begun<'_, U> {
        let now = self.now();
        let deadline = match patience {
            Patience::Until(deadline) => self.boot_time(deadline, now),
            Patience::None => now,
        };
        self.shared.touch(key, now, |inside| {
            match inside.wallet.handle_check(key, way, cost, deadline, now) {
                Checked::Answered(answer) => Begun::Answered(answer),
                Checked::NoRoom => Begun::NoRoom,
                Checked::Waiting(ticket) if patience == Patience::None => {
                    inside.wallet.give_up(key, ticket, now);
                    Begun::Answered(Answer::Undecided)
                }
                Checked::Waiting(ticket) => {
                    Begun::Waiting(Wait::new(&self.shared, key, ticket, inside.wait_for(ticket)))
                }
            }
        })
    }

    /// Notes what the owner decided without the wallet, so that the next request finds a lease or a refusal.
    pub(crate) fn decided_elsewhere(&self, key: Key, way: &Way, cost: u64, decision: &Decision) {
        let now = self.now();
        self.shared.touch(key, now, |inside| {
            inside.wallet.handle_decided_elsewhere(key, way, cost, decision, now);
        });
    }

    /// Makes sure of a number with the owner of a key, for when it can't be asked.
    pub(crate) fn keep_number(&self, key: Key, way: &Way) {
        self.shared.keep_number(key, way);
    }

    /// Puts back units that were taken from a cell and not used.
    pub(crate) fn put_back(&self, key: Key, units: u64, from: Generation) {
        if !self.shared.cells(key).find(key).is_some_and(|cell| cell.put_back(units, from)) {
            let now = self.now();
            self.shared.touch(key, now, |inside| inside.wallet.handle_put_back(key, units, from, now));
        }
    }

    /// Forgets refusals: other rules hold, or counters were made fresh. Leases stay.
    pub(crate) fn forget_refusals(&self) {
        let now = self.now();
        for stripe in 0..STRIPES {
            self.shared.touch_stripe(stripe, now, |inside| {
                inside.wallet.handle_rules_changed(|_, way| Some(way.clone()), now);
            });
        }
    }

    /// Hands everything back; from here on nothing is held. Whether all of it was told by `deadline`.
    pub(crate) async fn return_all(&self, deadline: Instant) -> bool {
        let now = self.now();
        for stripe in 0..STRIPES {
            self.shared.touch_stripe(stripe, now, |inside| inside.drain(now));
        }
        let mut emptied = self.shared.emptied.subscribe();
        let all = emptied.wait_for(|&stripes| stripes == STRIPES);
        tokio::time::timeout_at(deadline, all).await.is_ok_and(|all| all.is_ok())
    }

    /// Sums over all wallets, and how many keys they hold.
    pub(crate) fn totals(&self) -> (Totals, usize) {
        let mut sum = (Totals::default(), 0);
        for stripe in &self.shared.stripes {
            let (totals, keys) = stripe.totals();
            add(&mut sum.0, totals);
            sum.1 += keys;
        }
        sum
    }

    fn boot_time(&self, deadline: Instant, now: BootTime) -> BootTime {
        let left = deadline.saturating_duration_since(Instant::now()).as_nanos();
        BootTime(now.0.saturating_add(u64::try_from(left).unwrap_or(u64::MAX)))
    }
}

/// What a cell said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    Taken {
        left: u64,
        low: bool,
        generation: Generation,
        known: Known,
    },
    Denied(Denial),
    /// Ask the wallet.
    No,
}

impl Spent {
    #[inline]
    pub(crate) fn from(cell: KeyCell<'_>, cost: u64, now: BootTime) -> Self {
        match cell.spend(cost, now) {
            Spend::Taken { left, low, generation, known } => Self::Taken { left, low, generation, known },
            Spend::Short | Spend::Over => cell.refuse(cost, now).map_or(Self::No, Self::Denied),
        }
    }
}

impl<U: Upstream> Shared<U> {
    fn stripe_of(key: Key) -> usize {
        usize::try_from(u128::from(key.high) & STRIPES_MASK).expect("a stripe's number is small")
    }

    #[inline]
    fn cells(&self, key: Key) -> &Cells {
        &self.cells[Self::stripe_of(key)]
    }

    /// Does something to the wallet of a key's stripe, and acts on what came of it.
    fn touch<R>(&self, key: Key, now: BootTime, with: impl FnOnce(&mut stripe::Inside) -> R) -> R {
        self.touch_stripe(Self::stripe_of(key), now, with)
    }

    fn touch_stripe<R>(
        &self,
        stripe: usize,
        now: BootTime,
        with: impl FnOnce(&mut stripe::Inside) -> R,
    ) -> R {
        let mut work = Work::default();
        let mut inside = self.stripes[stripe].lock();
        let result = with(&mut inside);
        inside.collect(now, None, &mut work);
        self.stripes[stripe].unlock(inside);
        self.act(work);
        result
    }

    fn try_touch(&self, key: Key, now: BootTime, with: impl FnOnce(&mut Wallet<Way>)) {
        let stripe = Self::stripe_of(key);
        let Some(mut inside) = self.stripes[stripe].try_lock() else { return };
        let mut work = Work::default();
        with(&mut inside.wallet);
        inside.collect(now, None, &mut work);
        self.stripes[stripe].unlock(inside);
        self.act(work);
    }
}

fn add(sum: &mut Totals, one: Totals) {
    let Totals { asks, resends, leases, granted, returned, sync_lost, waited, sub_leases, lent, stranded } =
        one;
    sum.asks += asks;
    sum.resends += resends;
    sum.leases += leases;
    sum.granted += granted;
    sum.returned += returned;
    sum.sync_lost += sync_lost;
    sum.waited += waited;
    sum.sub_leases += sub_leases;
    sum.lent += lent;
    sum.stranded += stranded;
}
