//! Quantity text, read and written by the rules of apimachinery's `resource.Quantity`.

use std::fmt;
use std::iter::repeat_n;
use std::str::FromStr;

use smallvec::SmallVec;

/// Nanos in one unit: the finest step a quantity keeps.
const NANOS: u128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// Binary suffixes are capped here, in units; decimal ones are not.
const BINARY_CAP: u128 = i64::MAX as u128;

/// More decimal places than any value within i128 has.
const MANY_PLACES: i64 = 64;

/// An exact Kubernetes quantity, such as `1500m`, `4Gi` or `12e6`.
///
/// Held as whole nanos (10⁻⁹) of the unit. As in apimachinery, finer text is rounded away from
/// zero and a binary suffix caps at 2⁶³−1 units. Decimal text beyond ±1.7·10²⁹ units saturates,
/// far above anything [`Quantity::units`] can return.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Quantity {
    nanos: i128,
}

impl Quantity {
    /// Thousandths of the unit, rounded away from zero, saturating.
    pub fn milli(self) -> i64 {
        saturate(div_away(self.nanos, NANOS_PER_MILLI))
    }

    /// Whole units, rounded away from zero, saturating.
    pub fn units(self) -> i64 {
        saturate(div_away(self.nanos, NANOS as i128))
    }

    /// Thousandths of the unit, rounded down, saturating: for limits, which must not grow.
    pub fn milli_floor(self) -> i64 {
        saturate(self.nanos.div_euclid(NANOS_PER_MILLI))
    }

    /// Whole units, rounded down, saturating: for limits, which must not grow.
    pub fn units_floor(self) -> i64 {
        saturate(self.nanos.div_euclid(NANOS as i128))
    }

    /// Below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

/// The canonical decimal text; parsing it gives the same quantity.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.nanos, -9))
    }
}

/// As text, as in a manifest.
impl serde::Serialize for Quantity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Why a text is no quantity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QuantityError {
    /// No digits where the number should be.
    #[error("quantity {text:?}: expected a number such as \"2\", \"500m\" or \"1.5Gi\"")]
    Number {
        /// The text, shortened when very long.
        text: String,
    },
    /// Something other than a suffix follows the number.
    #[error(
        "quantity {text:?}: unknown suffix {suffix:?}, expected none or one of \
         n u m k M G T P E Ki Mi Gi Ti Pi Ei, or a decimal exponent such as e3"
    )]
    Suffix {
        /// The text, shortened when very long.
        text: String,
        /// The suffix behind the number, shortened likewise.
        suffix: String,
    },
    /// The decimal exponent is no 32-bit integer.
    #[error("quantity {text:?}: expected a decimal exponent within 32 bits")]
    Exponent {
        /// The text, shortened when very long.
        text: String,
    },
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, rest) = split_sign(text);
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Number { text: shown(text) });
        }
        let number = Number::new(whole, fraction);
        let magnitude = match Suffix::parse(text, suffix)? {
            Suffix::Decimal(exponent) => number.shifted(exponent).nanos(1),
            Suffix::Binary(factor) => number.nanos(factor).min(BINARY_CAP * NANOS),
        };
        let nanos = i128::try_from(magnitude).unwrap_or(i128::MAX);
        Ok(Self { nanos: if negative { -nanos } else { nanos } })
    }
}

/// What stands behind the number.
enum Suffix {
    /// A power of ten.
    Decimal(i32),
    /// A factor, itself a power of 1024.
    Binary(u128),
}

impl Suffix {
    fn parse(text: &str, suffix: &str) -> Result<Self, QuantityError> {
        Ok(match suffix {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(1 << 10),
            "Mi" => Self::Binary(1 << 20),
            "Gi" => Self::Binary(1 << 30),
            "Ti" => Self::Binary(1 << 40),
            "Pi" => Self::Binary(1 << 50),
            "Ei" => Self::Binary(1 << 60),
            _ => Self::Decimal(exponent(text, suffix)?),
        })
    }
}

/// The integer of `e3`, `E-3`, `e+3`.
fn exponent(text: &str, suffix: &str) -> Result<i32, QuantityError> {
    let digits = suffix.strip_prefix(['e', 'E']).unwrap_or_default();
    let magnitude = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    if magnitude.is_empty() || !magnitude.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Suffix { text: shown(text), suffix: shown(suffix) });
    }
    digits.parse().map_err(|_| QuantityError::Exponent { text: shown(text) })
}

/// An unsigned decimal number: `0.d₁d₂d₃… × 10^point`, with `d₁` not 0; no digits are 0.
struct Number {
    digits: SmallVec<[u8; 32]>,
    point: i64,
}

impl Number {
    fn new(whole: &str, fraction: &str) -> Self {
        let texts = whole.bytes().chain(fraction.bytes());
        let digits: SmallVec<_> = texts.map(|b| b - b'0').skip_while(|&d| d == 0).collect();
        let point = digits.len() as i64 - fraction.len() as i64;
        Self { digits, point }
    }

    fn shifted(mut self, places: i32) -> Self {
        self.point += i64::from(places);
        self
    }

    /// The value times `factor` in nanos, rounded up, saturating.
    fn nanos(&self, factor: u128) -> u128 {
        let length = self.digits.len() as i64;
        if length == 0 {
            return 0;
        }
        let (above, below) = self.digits.split_at(self.point.clamp(0, length) as usize);
        let trailing = (self.point - length).clamp(0, MANY_PLACES) as usize;
        let leading = (-self.point).clamp(0, MANY_PLACES) as usize;
        let unit = factor * NANOS;
        let above = above.iter().chain(repeat_n(&0, trailing));
        let below = repeat_n(&0, leading).chain(below);
        whole(above, unit).saturating_add(fraction(below, unit))
    }
}

/// `d₁d₂d₃… × unit`, saturating.
fn whole<'a>(digits: impl Iterator<Item = &'a u8>, unit: u128) -> u128 {
    digits.fold(0, |sum: u128, &d| sum.saturating_mul(10).saturating_add(u128::from(d) * unit))
}

/// `0.d₁d₂d₃… × unit`, rounded up; exact however many digits there are.
fn fraction<'a>(digits: impl DoubleEndedIterator<Item = &'a u8>, unit: u128) -> u128 {
    let (floor, inexact) = digits.rev().fold((0, false), |(below, inexact), &d| {
        let sum = u128::from(d) * unit + below;
        (sum / 10, inexact || !sum.is_multiple_of(10))
    });
    floor + u128::from(inexact)
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The text as errors quote it: one short line.
fn shown(text: &str) -> String {
    const LONGEST: usize = 64;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn div_away(value: i128, divisor: i128) -> i128 {
    let floor = value / divisor;
    if value % divisor == 0 { floor } else { floor + value.signum() }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Thousandths as canonical decimal text: 1500 is `1500m`, 4000 is `4`, 4000000 is `4k`.
pub fn format_milli(milli: i64) -> String {
    decimal(milli.into(), -3)
}

/// Thousandths of whole things as text without the suffix `m`, which nobody writes of GPUs: 66667 is `66.667`, 4000 is
/// `4`.
pub fn format_things(milli: i64) -> String {
    if milli % 1000 == 0 {
        return format_milli(milli);
    }
    thousandths(milli)
}

/// Thousandths as a decimal number: 66667 is `66.667`, 4000 is `4`.
fn thousandths(count: i64) -> String {
    let sign = if count < 0 { "-" } else { "" };
    let (whole, part) = (count.unsigned_abs() / 1000, count.unsigned_abs() % 1000);
    format!("{sign}{whole}.{part:03}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Whole units as canonical decimal text: 4 is `4`, 4000 is `4k`.
pub fn format_units(units: i64) -> String {
    decimal(units.into(), 0)
}

/// Bytes as Kubernetes' canonical BinarySI text: 4294967296 is `4Gi`; below 1024 it is decimal.
pub fn format_bytes(bytes: i64) -> String {
    if bytes.unsigned_abs() < 1024 {
        return format_units(bytes);
    }
    let steps = bytes.trailing_zeros() / 10;
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][steps as usize];
    format!("{}{suffix}", bytes >> (10 * steps))
}

/// `mantissa × 10^exponent` with the largest suffix that leaves no fraction.
fn decimal(mut mantissa: i128, exponent: i32) -> String {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if mantissa == 0 {
        return "0".to_owned();
    }
    let mut step = ((exponent + 9) / 3) as usize;
    while mantissa % 1000 == 0 && step + 1 < SUFFIXES.len() {
        mantissa /= 1000;
        step += 1;
    }
    format!("{mantissa}{}", SUFFIXES[step])
}
