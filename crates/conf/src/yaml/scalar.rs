//! The type of a plain scalar, as gopkg.in/yaml.v2 resolves it.
use phalanx_framework::conf::Value;

/// What unquoted text is: YAML 1.1 booleans, octal numbers and `_` in numbers included.
pub(crate) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        _ => number(text).unwrap_or_else(|| Value::Text(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|char: char| char.is_ascii_digit() || "+-.".contains(char)) {
        return None;
    }
    let plain = text.replace('_', "");
    match integer(&plain) {
        Some(number) => Some(i64::try_from(number).map_or(Value::Float(number as f64), Value::Int)),
        None => float(&plain).map(Value::Float),
    }
}

/// Go's `strconv.ParseInt(text, 0, 64)`, or `ParseUint` above it: `0x`, `0o`, `0b` and a leading 0 choose the base.
fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let magnitude = u64::from_str_radix(digits.strip_prefix('+').map_or(digits, |_| ""), base).ok()?;
    let number = sign * i128::from(magnitude);
    (number >= i128::from(i64::MIN)).then_some(number)
}

fn float(text: &str) -> Option<f64> {
    is_decimal(text).then(|| text.parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(text: &str) -> bool {
    let unsigned = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let mantissa = unsigned(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((&mantissa, ""));
    let exponent = unsigned(exponent);
    digits(whole)
        && digits(fraction)
        && whole.len() + fraction.len() > 0
        && digits(&exponent)
        && !exponent.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_have_the_types_of_yaml_v2() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (written, value) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("yes", Value::Bool(true)),
            ("On", Value::Bool(true)),
            ("n", Value::Bool(false)),
            ("yEs", text("yEs")),
            ("10", Value::Int(10)),
            ("-3", Value::Int(-3)),
            ("+3", Value::Int(3)),
            ("010", Value::Int(8)),
            ("0o17", Value::Int(15)),
            ("0x1F", Value::Int(31)),
            ("0x_1", Value::Int(1)),
            ("-010", Value::Int(-8)),
            ("0b12", text("0b12")),
            (".5_0", Value::Float(0.5)),
            ("18446744073709551616", Value::Float(18446744073709551616.0)),
            ("-0b101", Value::Int(-5)),
            ("1_000", Value::Int(1000)),
            ("08", Value::Float(8.0)),
            ("9223372036854775807", Value::Int(i64::MAX)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("9223372036854775808", Value::Float(9223372036854775808.0)),
            ("1.5", Value::Float(1.5)),
            (".5", Value::Float(0.5)),
            ("5.", Value::Float(5.0)),
            ("1e3", Value::Float(1000.0)),
            ("1.5E-1", Value::Float(0.15)),
            ("-.inf", Value::Float(f64::NEG_INFINITY)),
            ("1e999", text("1e999")),
            ("1e", text("1e")),
            (".", text(".")),
            ("-", text("-")),
            ("--1", text("--1")),
            ("+-1", text("+-1")),
            ("0x", text("0x")),
            ("0+1", text("0+1")),
            ("1m", text("1m")),
            ("10:30", text("10:30")),
            ("2001-01-01", text("2001-01-01")),
            ("inf", text("inf")),
            ("nan", text("nan")),
        ] {
            assert_eq!(resolve(written), value, "{written}");
        }
        assert!(matches!(resolve(".nan"), Value::Float(number) if number.is_nan()));
    }
}
