//! Quantities.
use phalanx_resource::Quantity;

/// A text that is read; a quantity is written and read again.
pub fn quantity(bytes: &[u8]) {
    match String::from_utf8_lossy(bytes).parse::<Quantity>() {
        Ok(read) => {
            assert_eq!(read.to_string().parse(), Ok(read));
            assert!(read.units_floor() <= read.units() && read.milli_floor() <= read.milli());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
