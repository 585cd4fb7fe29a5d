//! Protobuf's wire format: tags and the values behind them.

use crate::Invalid;

/// What stands behind a tag.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raw<'de> {
    /// A number or a truth value.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'de [u8]),
}

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'de>(pub(super) &'de [u8]);

fn short() -> Invalid {
    Invalid::new("found the end of the text within a field of protobuf, expected the rest of it")
}

impl<'de> Reader<'de> {
    /// The next field: its number and its value; `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Raw<'de>)>, Invalid> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let raw = match tag & 7 {
            0 => Raw::Number(self.varint()?),
            1 => Raw::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                Raw::Bytes(self.take(length)?)
            }
            5 => Raw::Bytes(self.take(4)?),
            other => {
                return Err(Invalid::new(format!(
                    "found wire type {other} of protobuf, expected 0, 1, 2 or 5"
                )));
            }
        };
        Ok(Some(((tag >> 3) as u32, raw)))
    }

    /// The next field, if it has this number: what is repeated stands together.
    pub(super) fn again(&mut self, number: u32) -> Result<Option<Raw<'de>>, Invalid> {
        let mut ahead = *self;
        match ahead.field()? {
            Some((found, raw)) if found == number => {
                *self = ahead;
                Ok(Some(raw))
            }
            _ => Ok(None),
        }
    }

    fn varint(&mut self) -> Result<u64, Invalid> {
        let mut value = 0;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(short())
    }

    fn take(&mut self, length: u64) -> Result<&'de [u8], Invalid> {
        let length = usize::try_from(length).map_err(|_| short())?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// The bytes of the field of this number, the last one if there are several; empty if there is none.
pub(super) fn bytes_of(message: &[u8], number: u32) -> Result<&[u8], Invalid> {
    let (mut reader, mut found) = (Reader(message), &message[..0]);
    while let Some((at, raw)) = reader.field()? {
        if let Raw::Bytes(bytes) = raw
            && at == number
        {
            found = bytes;
        }
    }
    Ok(found)
}
