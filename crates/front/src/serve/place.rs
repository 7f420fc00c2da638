//! A request's place among those in flight, which it holds only while its body has arrived.
//!
//! A body that is still under way holds no place: a few peers that announce bodies and never send them would otherwise
//! shut out everybody. What such a request may hold is bounded by its connection's streams and windows, and by the
//! request's own deadline.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A place, held or given back for now.
pub(super) struct Place {
    places: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
    is_shed: AtomicBool,
}

impl Place {
    /// One of `places`, if there is one left.
    pub(super) fn take(places: &Arc<Semaphore>) -> Option<Arc<Self>> {
        let held = Arc::clone(places).try_acquire_owned().ok()?;
        Some(Arc::new(Self {
            places: Arc::clone(places),
            held: Mutex::new(Some(held)),
            is_shed: AtomicBool::new(false),
        }))
    }

    /// Whether the request's body came when no place was left, so that it was cut off before anything was decided.
    pub(super) fn is_shed(&self) -> bool {
        self.is_shed.load(Ordering::Relaxed)
    }

    fn give_back(&self) {
        drop(self.held.lock().take());
    }

    fn take_again(&self) -> Result<(), BodyError> {
        let mut held = self.held.lock();
        if held.is_none() {
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                self.is_shed.store(true, Ordering::Relaxed);
                return Err(BodyError::Shed);
            };
            *held = Some(place);
        }
        Ok(())
    }
}

/// A request's body as a [`Door`](super::Door) reads it.
pub struct RequestBody {
    incoming: Incoming,
    place: Option<Arc<Place>>,
}

/// A body that can't be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection or the stream broke off.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// Too many requests were in flight when it came; the caller is told to retry.
    #[error("too many requests are in flight")]
    Shed,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, place: Option<Arc<Place>>) -> Self {
        Self { incoming, place }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").finish_non_exhaustive()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(cx);
        if let Some(place) = &self.place {
            if polled.is_pending() {
                place.give_back();
            } else if let Err(shed) = place.take_again() {
                return Poll::Ready(Some(Err(shed)));
            }
        }
        polled.map_err(BodyError::Broken)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
