//! Quantities for people: rounded to what can be compared at a glance, and still quantities that Kubernetes reads.
use crate::{Quantity, format_milli};

/// Units of bytes, the smallest first.
const BYTES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Units of thousands, the smallest first.
const THOUSANDS: [&str; 6] = ["", "k", "M", "G", "T", "P"];

/// The count from which thousands are written with a unit.
const LARGE: f64 = 10_000.0;

/// `22.5k` for 22500 CPUs, `500m` for half a CPU, `56Ti` for 57344Gi of memory. What is no quantity stays.
pub fn for_people(resource: &str, quantity: &str) -> String {
    let Ok(parsed) = quantity.parse::<Quantity>() else { return quantity.to_owned() };
    let ends = |end: &str| resource.ends_with(end);
    match resource {
        _ if ends("memory") || ends("storage") || resource.contains("hugepages-") => {
            describe_bytes(parsed.units())
        }
        _ if ends("cpu") => describe_cpu(parsed.milli()),
        _ => describe_things(parsed.milli()),
    }
}

/// Thousandths of cores: `500m`, `402.8`, `22.5k`.
pub(crate) fn describe_cpu(milli: i64) -> String {
    if milli.unsigned_abs() < 1_000 { format_milli(milli) } else { describe_things(milli) }
}

/// Thousandths of whole things: `0.5`, `66.7`, `22.5k`.
pub(crate) fn describe_things(milli: i64) -> String {
    scaled(milli as f64 / 1_000.0, 1_000.0, LARGE, &THOUSANDS)
}

/// Bytes: `500`, `33.3Gi`, `56Ti`.
pub fn describe_bytes(bytes: i64) -> String {
    scaled(bytes as f64, 1_024.0, 1_024.0, &BYTES)
}

/// A count in the largest unit in which it is 1 or more, once it has reached the limit from which units are used.
fn scaled(mut count: f64, step: f64, from: f64, units: &[&str]) -> String {
    let mut unit = 0;
    if count.abs() >= from {
        while count.abs() >= step && unit + 1 < units.len() {
            count /= step;
            unit += 1;
        }
    }
    rounded(count) + units[unit]
}

/// Thousandths below 10, tenths below 1,000, else whole.
fn rounded(count: f64) -> String {
    // Most counts are whole, and integers are written in a tenth of the time.
    if count.fract() == 0.0 && count.abs() < 1e15 {
        return (count as i64).to_string();
    }
    let text = match count.abs() {
        small if small < 10.0 => format!("{count:.3}"),
        middle if middle < 1_000.0 => format!("{count:.1}"),
        _ => return format!("{count:.0}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
