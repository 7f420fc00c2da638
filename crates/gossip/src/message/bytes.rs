//! Reading little-endian fields off a slice; running out of bytes is an error like any other.

use super::Malformed;

/// What has not been read yet.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed("cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// UTF-8 text behind its length, of at most `max` bytes.
    pub(super) fn text(&mut self, max: usize) -> Result<(), Malformed> {
        let len = usize::from(self.u16()?);
        if len > max {
            return Err(Malformed("a text longer than its bound"));
        }
        std::str::from_utf8(self.take(len)?).map(|_| ()).map_err(|_| Malformed("a text that is not UTF-8"))
    }

    pub(super) const fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("bytes after the end")) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N).map(|bytes| bytes.try_into().expect("took exactly that many"))
    }
}
