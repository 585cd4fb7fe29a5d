//! Names of objects, and keys and values of labels, as Kubernetes wants them.
//!
//! Source: Kubernetes' validation (`IsDNS1123Subdomain`, `IsQualifiedName`, `IsValidLabelValue`).
use crate::Invalid;

const KEY: &str = "expected at most 63 letters, digits, '-', '_' and '.', with letters or digits at both ends, and before \
                   it nothing or a domain and '/'";
const VALUE: &str =
    "expected nothing, or at most 63 letters, digits, '-', '_' and '.', with letters or digits at both ends";

/// What is wrong with a key of a label or an annotation, or with a label as a topology.
///
/// # Errors
/// Says what was expected.
pub fn check_key(key: &str) -> Result<(), Invalid> {
    if is_key(key) { Ok(()) } else { Err(Invalid::new(format!("found {key:?}, {KEY}"))) }
}

/// What is wrong with the value of a label.
///
/// # Errors
/// Says what was expected.
pub fn check_value(value: &str) -> Result<(), Invalid> {
    let good = value.is_empty() || is_word(value);
    if good { Ok(()) } else { Err(Invalid::new(format!("found {value:?}, {VALUE}"))) }
}

/// A DNS-1123 subdomain, as Kubernetes wants names.
pub fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
            && bytes.first().is_some_and(|byte| inner(*byte))
            && bytes.last().is_some_and(|byte| inner(*byte))
    };
    name.len() <= 253 && name.split('.').all(label)
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => is_name(domain) && is_word(name),
        None => is_word(key),
    }
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.len() <= 63 && end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_kubernetes() {
        for good in ["a", "a-b", "a.b-c.9", "0"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", "a/b", "ä"] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn keys_and_values_of_labels_follow_the_rules_of_kubernetes() {
        for good in ["app", "a.b/c_d", "A.b-C_9", "x.y/Z"] {
            assert_eq!(check_key(good), Ok(()), "{good}");
        }
        for bad in ["", "a!!", "-app", "/b", "A.b/c", "a/b/c", "a b", &"x".repeat(64)] {
            assert!(check_key(bad).is_err(), "{bad}");
        }
        assert_eq!((check_value(""), check_value("web-1")), (Ok(()), Ok(())));
        for bad in ["-web", "a b", "a/b", &"x".repeat(64)] {
            assert!(check_value(bad).is_err(), "{bad}");
        }
    }
}
