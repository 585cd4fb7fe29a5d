//! A part of a status that the scheduler writes and reads again with the object.
use std::ops::Deref;

/// The value as last decided or read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written<T> {
    value: T,
    /// What the value replaced: it may be read once more, from an object that is older than the write.
    replaced: Option<T>,
}

impl<T: PartialEq> Written<T> {
    /// This value is going to be written.
    pub fn decide(&mut self, value: T) {
        self.replaced = Some(std::mem::replace(&mut self.value, value));
    }

    /// Forgets what was decided: the object is another one, or another process writes it.
    pub(crate) fn begin(&mut self, value: T) {
        *self = Self { value, replaced: None };
    }

    /// Takes in what was read. Returns whether it is neither what was decided nor what stood there before: then
    /// somebody else wrote it, or a write of an earlier leader came late.
    pub(crate) fn read(&mut self, value: T) -> bool {
        if self.replaced.as_ref() == Some(&value) {
            return false;
        }
        let rewritten = self.value != value;
        self.begin(value);
        rewritten
    }
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
