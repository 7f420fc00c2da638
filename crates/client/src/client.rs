//! Checks in a service's own process: rules and tokens come from a node, decisions are taken here.
//!
//! Invariant: what a client holds goes back by [`Client::close`], or ends with its leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use leasehold_decide::{Active, CheckError, Decider, Engine, Host, Readiness, ResetTarget, bounds};
use leasehold_limit::KeySecret;
use leasehold_limit::check::{Answer, Attribute, Descriptor, Request};
use leasehold_model::{Nanos, RequestId};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::handle::Handle;
use crate::stream::{Address, StreamConfig};
use crate::{
    AuthoritySettings, Clock, Counts, KnownRules, LeaseAuthority, NodeStream, SystemClock, Upstream,
};

/// Counters that one request may be charged to; more are refused as invalid, as a node would.
const DEMANDS_MAX: usize = 256;

/// What a client is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Nodes of one cluster, or one node that runs alone.
    pub addresses: Vec<Address>,
    /// What operators see of this client; at most 128 bytes.
    pub name: String,
    /// How long to wait for a node's rules before giving up.
    pub connect_max: Duration,
    /// How tokens are held, and how long a check waits for them.
    pub authority: AuthoritySettings,
}

impl Config {
    /// With the defaults, for nodes at these addresses.
    pub fn new(name: impl Into<String>, addresses: impl Into<Vec<Address>>) -> Self {
        Self {
            addresses: addresses.into(),
            name: name.into(),
            connect_max: Duration::from_secs(5),
            authority: AuthoritySettings::default(),
        }
    }
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Name at least one.
    #[error("addresses: there is none; name at least one node")]
    NoAddress,
    /// No node handed out its rules in time. Check the addresses, or wait longer.
    #[error("no node handed out its rules within {} ms: {why}", within.as_millis())]
    NoRules {
        /// How long was waited.
        within: Duration,
        /// What the last attempt to connect ended with.
        why: Arc<str>,
    },
}

/// Checks requests. Clones are handles to the same one.
#[derive(Debug)]
pub struct Client<U: Upstream = NodeStream> {
    inner: Arc<Inner<U>>,
}

#[derive(Debug)]
struct Inner<U: Upstream> {
    engine: Arc<Engine<LeaseAuthority<U>, InForce>>,
    _follow: AbortOnDropHandle<()>,
}

impl<U: Upstream> Clone for Client<U> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl Client {
    /// Connects to a node and waits for its rules. From then on it decides, whether nodes can be reached or not.
    ///
    /// # Errors
    /// [`ConnectError`]: there is nothing to decide by.
    pub async fn connect(config: Config) -> Result<Self, ConnectError> {
        let Config { addresses, name, connect_max, authority } = config;
        if addresses.is_empty() {
            return Err(ConnectError::NoAddress);
        }
        let stream = NodeStream::open(StreamConfig { addresses, name });
        let mut rules = stream.rules();
        let known = timeout(connect_max, rules.wait_for(Option::is_some)).await;
        if known.is_err() {
            let why = stream.away().map_or_else(|| "it is silent".into(), |away| away.why);
            return Err(ConnectError::NoRules { within: connect_max, why });
        }
        drop(known);
        Ok(Self::over(Arc::new(stream), rules, Arc::new(SystemClock), authority))
    }

    /// Hands back everything that is held and ends the connection. Returns whether all of that was done within the time;
    /// what is left ends with its leases. Checks after it are refused as overload.
    pub async fn close(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let returned = self.return_all(deadline).await;
        let left = deadline.saturating_duration_since(Instant::now());
        self.authority().upstream().close(left).await && returned
    }
}

impl<U: Upstream> Client<U> {
    /// Decides by rules from anywhere, over any upstream. `clock` is the process's one.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn over(
        upstream: Arc<U>,
        mut rules: watch::Receiver<Option<Arc<KnownRules>>>,
        clock: Arc<dyn Clock>,
        settings: AuthoritySettings,
    ) -> Self {
        let authority = Arc::new(LeaseAuthority::start(upstream, clock, settings));
        let engine = Arc::new(Engine::new(InForce::default(), authority, DEMANDS_MAX));
        let known = rules.borrow_and_update().clone();
        known.into_iter().for_each(|known| engine.host().put(&known));
        let follow = AbortOnDropHandle::new(tokio::spawn(follow(rules, Arc::clone(&engine))));
        Self { inner: Arc::new(Inner { engine, _follow: follow }) }
    }

    /// Decides one request: `cost` units of every limit of `domain` that applies to these names and values.
    ///
    /// # Errors
    /// The request is malformed, or too much is going on. Being over a limit is an answer.
    pub async fn check<V: AsRef<[u8]> + Sync>(
        &self,
        domain: &str,
        attributes: &[(&str, V)],
        cost: u64,
    ) -> Result<Answer, CheckError> {
        let attributes: Vec<_> =
            attributes.iter().map(|(name, value)| Attribute { name, value: value.as_ref() }).collect();
        self.check_attributes(domain, attributes, cost).await
    }

    pub(crate) async fn check_attributes(
        &self,
        domain: &str,
        attributes: Vec<Attribute<'_>>,
        cost: u64,
    ) -> Result<Answer, CheckError> {
        bounds::domain(domain)?;
        bounds::attributes("attributes", &attributes)?;
        let descriptor = Descriptor { attributes, cost, limit_override: None };
        let request = Request { domain, descriptors: vec![descriptor], request_id: None };
        self.inner.engine.check(&request, None).await
    }

    /// The counter of requests that all have these names and values, resolved once: for a hot path.
    ///
    /// # Errors
    /// The names or values are none.
    pub fn handle<V: AsRef<[u8]>>(
        &self,
        domain: &str,
        attributes: &[(&str, V)],
    ) -> Result<Handle<U>, CheckError> {
        Handle::new(self.clone(), domain, attributes)
    }

    /// Hands back everything that is held, and holds nothing from here on: every check is decided by the owners. Returns
    /// whether they confirmed it by `deadline`.
    pub async fn return_all(&self, deadline: Instant) -> bool {
        self.authority().return_all(deadline).await
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.authority().counts()
    }

    pub(crate) fn authority(&self) -> &LeaseAuthority<U> {
        self.inner.engine.authority()
    }

    pub(crate) fn in_force(&self) -> &InForce {
        self.inner.engine.host()
    }
}

/// With everything that a request may carry: several descriptors, a request id, a budget.
impl<U: Upstream> Decider for Client<U> {
    async fn check<'a>(
        &'a self,
        request: &'a Request<'a>,
        budget: Option<Duration>,
    ) -> Result<Answer, CheckError> {
        self.inner.engine.check(request, budget).await
    }

    async fn reset<'a>(&'a self, target: ResetTarget<'a>) -> Result<u32, CheckError> {
        self.inner.engine.reset(target).await
    }

    fn request_id(&self, domain: &str, text: &str) -> RequestId {
        self.inner.engine.request_id(domain, text)
    }

    fn readiness(&self) -> Readiness {
        self.inner.engine.readiness()
    }
}

async fn follow<U: Upstream>(
    mut rules: watch::Receiver<Option<Arc<KnownRules>>>,
    engine: Arc<Engine<LeaseAuthority<U>, InForce>>,
) {
    while rules.changed().await.is_ok() {
        let known = rules.borrow_and_update().clone();
        if let Some(known) = known {
            engine.host().put(&known);
            engine.authority().rules_changed();
        }
    }
}

/// The rules in force here.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    active: ArcSwapOption<Active<()>>,
    /// Counts the sets that were put in force; whoever resolved anything by one of them compares.
    generation: AtomicU64,
}

impl InForce {
    fn put(&self, known: &KnownRules) {
        let active = Active {
            book: Arc::clone(&known.book),
            meters: (),
            secret: known.secret.clone(),
            region: known.region.clone(),
        };
        self.active.store(Some(Arc::new(active)));
        self.generation.fetch_add(1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

impl Host for InForce {
    type Meters = ();

    fn active(&self) -> Option<Arc<Active<()>>> {
        self.active.load_full()
    }

    fn secret(&self) -> KeySecret {
        self.active().map_or_else(|| KeySecret::new([0; 16]), |active| active.secret.clone())
    }

    fn readiness(&self) -> Readiness {
        if self.active.load().is_some() {
            return Readiness::Ready;
        }
        Readiness::NotReady("no node has handed out its rules yet".to_owned())
    }

    fn decided(&self, (): &(), _: &Answer, _: Nanos) {}

    fn unmatched(&self, _: bool) {}

    fn full(&self, domain: &str) {
        tracing::debug!(domain, "the domain holds as many counters as it may");
    }
}
