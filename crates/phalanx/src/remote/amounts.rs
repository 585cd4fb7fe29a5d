//! Amounts of resources on the command line: `cpu=1,memory=1Gi`.
use std::collections::BTreeMap;

use phalanx_resource::Quantity;

use crate::exit::BadInput;

/// The canonical amounts by resource; `None` for an empty text.
pub(crate) fn parse(flag: &str, text: &str) -> Result<Option<BTreeMap<String, String>>, BadInput> {
    if text.is_empty() {
        return Ok(None);
    }
    text.split(',').map(|statement| one(flag, statement)).collect::<Result<_, _>>().map(Some)
}

fn one(flag: &str, statement: &str) -> Result<(String, String), BadInput> {
    let parts: Vec<&str> = statement.split('=').collect();
    let [resource, amount] = parts[..] else {
        let expected = "expected <resource>=<value>";
        return Err(BadInput(format!("invalid argument syntax {statement}, {expected}")));
    };
    let amount = canonical(amount).map_err(|error| BadInput(format!("--{flag}: {resource}: {error}")))?;
    Ok((resource.to_owned(), amount))
}

/// A quantity as apimachinery writes it: `1000m` is `1`, `2048Mi` is `2Gi`.
pub(crate) fn canonical(text: &str) -> Result<String, phalanx_resource::QuantityError> {
    let quantity: Quantity = text.parse()?;
    let whole = quantity.units();
    let is_whole = whole.to_string().parse() == Ok(quantity);
    let has_exponent = text.ends_with(|end: char| end.is_ascii_digit()) && text.contains(['e', 'E']);
    Ok(if has_exponent {
        text.to_owned()
    } else if text.ends_with('i') && is_whole {
        phalanx_resource::format_bytes(whole)
    } else {
        quantity.to_string()
    })
}

/// Amounts in one word, or `<none>`.
pub(crate) fn shown<T: AsRef<str>>(amounts: impl IntoIterator<Item = (impl AsRef<str>, T)>) -> String {
    let parts = amounts.into_iter().map(|(name, amount)| format!("{}={}", name.as_ref(), amount.as_ref()));
    let text = parts.collect::<Vec<_>>().join(",");
    if text.is_empty() { "<none>".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_apimachinery_writes_them() {
        for (text, expected) in [
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("100Mi", "100Mi"),
            ("2048Mi", "2Gi"),
            ("0.5Gi", "512Mi"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("0", "0"),
            ("512", "512"),
            ("0.1Ki", "102400m"),
        ] {
            assert_eq!(canonical(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_list_of_amounts_is_read_or_refused_with_its_place() {
        let read = |text: &str| parse("requests", text).map_err(|error| error.0);
        let amounts = read("cpu=1000m,memory=100Mi").unwrap().unwrap();
        assert_eq!(shown(&amounts), "cpu=1,memory=100Mi");
        assert_eq!(read(""), Ok(None));
        assert_eq!(
            read("cpu"),
            Err("invalid argument syntax cpu, expected <resource>=<value>".to_owned()),
            "in vcctl's words"
        );
        assert_eq!(
            read("cpu=1=2"),
            Err("invalid argument syntax cpu=1=2, expected <resource>=<value>".to_owned())
        );
        let error = read("cpu=1,memory=1x").unwrap_err();
        assert!(error.starts_with("--requests: memory: quantity \"1x\": unknown suffix \"x\""), "{error}");
    }
}
