//! Real nodes on loopback: how fast they find and miss each other, and what strangers can do to them (nothing).

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod support;
