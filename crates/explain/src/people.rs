//! Quantities for people: rounded to what can be compared at a glance. Exact ones are in JSON.
use phalanx_resource::Quantity;

/// Units of bytes, the smallest first.
const BYTES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Units of thousands, the smallest first.
const THOUSANDS: [&str; 5] = ["", "k", "M", "G", "T"];

/// The count from which thousands are written with a unit.
const LARGE: f64 = 10_000.0;

/// `22.5k` for 22500 CPUs, `56 Ti` for 57344Gi of memory.
pub fn for_people(resource: &str, amount: &str) -> String {
    let Ok(quantity) = amount.parse::<Quantity>() else { return amount.to_owned() };
    if is_of_bytes(resource) {
        let (count, unit) = scaled(quantity.units() as f64, 1_024.0, 1_024.0, &BYTES);
        return [rounded(count), unit.to_owned()].join(if unit.is_empty() { "" } else { " " });
    }
    let (count, unit) = scaled(quantity.milli() as f64 / 1_000.0, 1_000.0, LARGE, &THOUSANDS);
    rounded(count) + unit
}

fn is_of_bytes(resource: &str) -> bool {
    resource.ends_with("memory") || resource.ends_with("storage") || resource.starts_with("hugepages-")
}

/// A count in the largest unit in which it is 1 or more, once it has reached the limit from which units are used.
fn scaled<'u>(mut count: f64, step: f64, from: f64, units: &[&'u str]) -> (f64, &'u str) {
    let mut unit = 0;
    if count.abs() >= from {
        while count.abs() >= step && unit + 1 < units.len() {
            count /= step;
            unit += 1;
        }
    }
    (count, units[unit])
}

/// Thousandths below 10, tenths below 1,000, else whole.
fn rounded(count: f64) -> String {
    let text = match count.abs() {
        small if small < 10.0 => format!("{count:.3}"),
        middle if middle < 1_000.0 => format!("{count:.1}"),
        _ => return format!("{count:.0}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_rounded_to_what_can_be_compared_at_a_glance() {
        for (resource, amount, expected) in [
            ("cpu", "22500", "22.5k"),
            ("cpu", "5818182m", "5818"),
            ("cpu", "500m", "0.5"),
            ("cpu", "22k", "22k"),
            ("cpu", "4", "4"),
            ("nvidia.com/gpu", "727.273", "727.3"),
            ("nvidia.com/gpu", "40k", "40k"),
            ("memory", "57344Gi", "56 Ti"),
            ("memory", "22000Gi", "21.5 Ti"),
            ("memory", "16Gi", "16 Gi"),
            ("memory", "0", "0"),
            ("pods", "5500", "5500"),
            ("cpu", "what", "what"),
        ] {
            assert_eq!(for_people(resource, amount), expected, "{resource} {amount}");
        }
    }
}
