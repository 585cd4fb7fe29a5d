use phalanx_resource::{
    Quantity, QuantityError, for_people, format_bytes, format_milli, format_things, format_units,
};
use proptest::prelude::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn quantities_are_read_in_units_and_thousandths() {
    let cases: &[(&str, i64, i64)] = &[
        ("0", 0, 0),
        ("-0", 0, 0),
        ("0Gi", 0, 0),
        ("0.000m", 0, 0),
        ("2", 2, 2000),
        ("+2", 2, 2000),
        ("-2", -2, -2000),
        ("007", 7, 7000),
        ("5.", 5, 5000),
        ("5.k", 5000, 5_000_000),
        (".5", 1, 500),
        ("-.5", -1, -500),
        ("1.25", 2, 1250),
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("2500u", 1, 3),
        ("-2500u", -1, -3),
        ("3000000n", 1, 3),
        ("3000001n", 1, 4),
        ("4k", 4000, 4_000_000),
        ("1.5M", 1_500_000, 1_500_000_000),
        ("7G", 7_000_000_000, 7_000_000_000_000),
        ("2T", 2_000_000_000_000, 2_000_000_000_000_000),
        ("3P", 3_000_000_000_000_000, 3_000_000_000_000_000_000),
        ("9E", 9_000_000_000_000_000_000, i64::MAX),
        ("1Ki", 1024, 1_024_000),
        ("1.5Mi", 1_572_864, 1_572_864_000),
        ("-1Ki", -1024, -1_024_000),
        ("0.5Gi", 536_870_912, 536_870_912_000),
        ("0.3Ki", 308, 307_200),
        ("4Ti", 4_398_046_511_104, 4_398_046_511_104_000),
        ("1Pi", 1_125_899_906_842_624, 1_125_899_906_842_624_000),
        ("1Ei", 1_152_921_504_606_846_976, i64::MAX),
        ("12e6", 12_000_000, 12_000_000_000),
        ("12E+3", 12_000, 12_000_000),
        ("1250e-3", 2, 1250),
        (".5e1", 5, 5000),
        ("0.001e3", 1, 1000),
        // The range of i64 and beyond.
        ("9223372036854775807", i64::MAX, i64::MAX),
        ("9223372036854775808", i64::MAX, i64::MAX),
        ("-9223372036854775808", i64::MIN, i64::MIN),
        ("-9223372036854775809", i64::MIN, i64::MIN),
        ("8Ei", i64::MAX, i64::MAX),
        ("1e30", i64::MAX, i64::MAX),
        ("-1000E", i64::MIN, i64::MIN),
        ("1e2147483647", i64::MAX, i64::MAX),
        // Less than a nano is one.
        ("1e-2147483648", 1, 1),
        ("0.00000000000001", 1, 1),
    ];
    for &(text, units, milli) in cases {
        let value = quantity(text);
        assert_eq!((value.units(), value.milli()), (units, milli), "{text}");
        assert_eq!(value.is_negative(), units < 0, "{text}");
    }
}

#[test]
fn limits_are_rounded_down() {
    let cases: &[(&str, i64, i64)] = &[
        ("1.9", 1, 1900),
        ("1999u", 0, 1),
        ("-0.5", -1, -500),
        ("-1u", -1, -1),
        ("3", 3, 3000),
        ("1e40", i64::MAX, i64::MAX),
    ];
    for &(text, units, milli) in cases {
        let value = quantity(text);
        assert_eq!((value.units_floor(), value.milli_floor()), (units, milli), "{text}");
    }
}

#[test]
fn parts_below_nano_are_rounded_away_from_zero() {
    let cases = [
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.00000000001u", "1001n"),
        ("0.0000000001Ki", "103n"),
        ("-0.0000000001Ki", "-103n"),
        (".00000000000000000000000000000000000000001Ei", "1n"),
        // 2^60 tenths of 10^-27 are 1152921.50… nanos; a long tail must not be lost.
        ("0.0000000000000000000010000000000000000000000000000000001Ei", "1152922n"),
    ];
    for (text, same) in cases {
        assert_eq!(quantity(text), quantity(same), "{text}");
    }
}

#[test]
fn a_long_number_is_exact() {
    let zeros = "0".repeat(100_000);
    assert_eq!(quantity(&format!("{zeros}12.5{zeros}")), quantity("12500m"));
    assert_eq!(quantity(&format!("12.5{zeros}1")).milli(), 12501);
    assert_eq!(quantity(&format!("0.{zeros}12e100000")), quantity("120m"));
}

#[test]
fn quantities_are_ordered_by_value() {
    let ordered =
        ["-1Ei", "-1", "-1n", "0", "1n", "999u", "1m", "1", "1000m1", "1k", "1Ki", "1e4", "1E", "1Ei"];
    let values: Vec<Quantity> = ordered.iter().filter_map(|text| text.parse().ok()).collect();
    assert_eq!(values.len(), ordered.len() - 1, "1000m1 is no quantity");
    assert!(values.is_sorted_by(|a, b| a < b));
    assert_eq!(quantity("1024"), quantity("1Ki"));
    assert_eq!(Quantity::default(), quantity("0"));
}

#[test]
fn text_that_is_no_number_is_an_error() {
    for text in ["", "+", "-", ".", "Gi", "m", "-.", "--1", "+-1", " 1", "abc", "½", "e3", ".Ki"] {
        let error = text.parse::<Quantity>().unwrap_err();
        assert_eq!(error, QuantityError::Number { text: text.to_owned() });
    }
}

#[test]
fn an_unknown_suffix_is_an_error() {
    let cases = [
        ("1i", "i"),
        ("1Kib", "Kib"),
        ("1K", "K"),
        ("1 Gi", " Gi"),
        ("1 ", " "),
        ("1.1.1", ".1"),
        ("1mi", "mi"),
        ("5GB", "GB"),
        ("1e", "e"),
        ("1e+", "e+"),
        ("1e3.5", "e3.5"),
        ("1e3k", "e3k"),
        ("1ki", "ki"),
        ("0x10", "x10"),
        ("1,5", ",5"),
        ("1µ", "µ"),
        ("1e-+3", "e-+3"),
    ];
    for (text, suffix) in cases {
        let error = text.parse::<Quantity>().unwrap_err();
        assert_eq!(error, QuantityError::Suffix { text: text.to_owned(), suffix: suffix.to_owned() });
    }
}

#[test]
fn errors_name_what_was_expected() {
    let message = |text: &str| text.parse::<Quantity>().unwrap_err().to_string();
    assert_eq!(message("lots"), r#"quantity "lots": expected a number such as "2", "500m" or "1.5Gi""#);
    assert_eq!(
        message("4GB"),
        r#"quantity "4GB": unknown suffix "GB", expected none or one of n u m k M G T P E Ki Mi Gi Ti Pi Ei, or a decimal exponent such as e3"#
    );
    assert_eq!(
        message("1e2147483648"),
        r#"quantity "1e2147483648": expected a decimal exponent within 32 bits"#
    );
    let long = message(&"é\n".repeat(1000));
    assert!(long.len() < 300 && !long.contains('\n'), "{long}");
}

#[test]
fn quantities_are_written_as_kubernetes_writes_them() {
    let bytes = [
        (0, "0"),
        (1, "1"),
        (1000, "1k"),
        (1023, "1023"),
        (-1000, "-1k"),
        (1024, "1Ki"),
        (1500, "1500"),
        (1_572_864, "1536Ki"),
        (1 << 32, "4Gi"),
        (-(1 << 32), "-4Gi"),
        (3 << 29, "1536Mi"),
        (1 << 60, "1Ei"),
        (i64::MAX, "9223372036854775807"),
        (i64::MIN, "-8Ei"),
    ];
    for (value, text) in bytes {
        assert_eq!(format_bytes(value), text);
    }
    let milli = [(0, "0"), (1, "1m"), (1500, "1500m"), (4000, "4"), (-2500, "-2500m"), (4_000_000, "4k")];
    for (value, text) in milli {
        assert_eq!(format_milli(value), text);
    }
    let things =
        [(0, "0"), (1, "0.001"), (66_667, "66.667"), (-2500, "-2.5"), (8000, "8"), (4_000_000, "4k")];
    for (value, text) in things {
        assert_eq!(format_things(value), text);
        assert_eq!(quantity(text).milli(), value);
    }
    let units = [
        (0, "0"),
        (110, "110"),
        (1000, "1k"),
        (12_345, "12345"),
        (i64::MAX / 10 * 10, "9223372036854775800"),
    ];
    for (value, text) in units {
        assert_eq!(format_units(value), text);
    }
    for (text, canonical) in [("0.5", "500m"), ("1.5Gi", "1610612736"), ("-2e3", "-2k"), ("1e21", "1000E")] {
        assert_eq!(quantity(text).to_string(), canonical);
    }
}

/// The suffixes with the power of ten and of two that they stand for.
const SUFFIXES: [(&str, i32, u32); 16] = [
    ("n", -9, 0),
    ("u", -6, 0),
    ("m", -3, 0),
    ("", 0, 0),
    ("k", 3, 0),
    ("M", 6, 0),
    ("G", 9, 0),
    ("T", 12, 0),
    ("P", 15, 0),
    ("E", 18, 0),
    ("Ki", 0, 10),
    ("Mi", 0, 20),
    ("Gi", 0, 30),
    ("Ti", 0, 40),
    ("Pi", 0, 50),
    ("Ei", 0, 60),
];

/// `mantissa × 10^-places` as decimal text.
fn decimal(mantissa: u64, places: usize) -> String {
    let digits = format!("{mantissa:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    if places == 0 { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

/// `mantissa × 10^ten × 2^two`, rounded up; `None` if it does not fit.
fn exact(mantissa: u64, ten: i32, two: u32) -> Option<i128> {
    let value = i128::from(mantissa).checked_mul(1 << two)?;
    let power = 10_i128.checked_pow(ten.unsigned_abs())?;
    if ten >= 0 { value.checked_mul(power) } else { Some((value + power - 1) / power) }
}

proptest! {
    #[test]
    fn the_value_of_a_text_equals_its_arithmetic(
        mantissa in prop_oneof![0..10_000_u64, any::<u64>()],
        places in 0..15_usize,
        suffix in proptest::sample::select(SUFFIXES.as_slice()),
    ) {
        let (name, ten, two) = suffix;
        let value = quantity(&format!("{}{name}", decimal(mantissa, places)));
        let negative = quantity(&format!("-{}{name}", decimal(mantissa, places)));
        let capped = |value: Option<i128>| value.and_then(|v| i64::try_from(v).ok()).unwrap_or(i64::MAX);
        let ten = ten - places as i32;
        let units = capped(exact(mantissa, ten, two));
        prop_assert_eq!(value.units(), units);
        prop_assert_eq!(value.milli(), capped(exact(mantissa, ten + 3, two)));
        // Decimal text reaches one further down.
        if two > 0 || units < i64::MAX {
            prop_assert_eq!(negative.units(), -units);
        }
    }

    #[test]
    fn an_exponent_is_a_suffix(mantissa in any::<u32>(), places in 0..12_usize, suffix in 0..10_usize) {
        let (name, ten, _) = SUFFIXES[suffix];
        let number = decimal(mantissa.into(), places);
        let value = quantity(&format!("{number}{name}"));
        prop_assert_eq!(quantity(&format!("{number}e{ten}")), value);
        prop_assert_eq!(quantity(&format!("{number}E{ten:+}")), value);
    }

    #[test]
    fn canonical_text_round_trips(value in prop_oneof![-5000..5000_i64, any::<i64>()], shift in 0..62_u32) {
        let value = value >> shift << shift;
        prop_assert_eq!(quantity(&format_units(value)).units(), value);
        prop_assert_eq!(quantity(&format_milli(value)).milli(), value);
        if value > i64::MIN {
            prop_assert_eq!(quantity(&format_bytes(value)).units(), value);
        }
    }

    #[test]
    fn any_text_keeps_its_value_when_written_again(text in "[+-]?([0-9]{1,20}[.]?[0-9]{0,14}|[.][0-9]{1,14})([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?") {
        let value = quantity(&text);
        let again = value.to_string();
        prop_assert_eq!(quantity(&again), value, "{}", again);
        prop_assert_eq!(quantity(&again).to_string(), again);
    }

    #[test]
    fn no_text_panics(text in prop_oneof![".{0,12}", "[-+.0-9eEinumkKMGTP]{0,12}"]) {
        if let Ok(value) = text.parse::<Quantity>() {
            prop_assert!(value.units_floor() <= value.units() || value.is_negative());
        }
    }

    /// Whole numbers only, and neither E nor Ei: the other library reads numbers as f64, `1E` included.
    #[test]
    fn values_equal_those_of_another_library(
        whole in -8_000_000..8_000_000_i64,
        suffix in proptest::sample::select(vec!["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]),
    ) {
        let text = format!("{whole}{suffix}");
        let other = kube_quantity::ParsedQuantity::try_from(text.as_str()).unwrap();
        prop_assert_eq!(other.to_bytes_i64(), Some(quantity(&text).units()));
    }
}

#[test]
fn quantities_are_rounded_to_what_can_be_compared_at_a_glance() {
    for (resource, amount, expected) in [
        ("cpu", "22500", "22.5k"),
        ("cpu", "5818182m", "5818"),
        ("cpu", "500m", "500m"),
        ("requests.cpu", "1500m", "1.5"),
        ("cpu", "22k", "22k"),
        ("cpu", "4", "4"),
        ("nvidia.com/gpu", "0.5", "0.5"),
        ("nvidia.com/gpu", "727.273", "727.3"),
        ("nvidia.com/gpu", "40k", "40k"),
        ("memory", "57344Gi", "56Ti"),
        ("memory", "22000Gi", "21.5Ti"),
        ("requests.memory", "240000Gi", "234.4Ti"),
        ("memory", "16Gi", "16Gi"),
        ("memory", "-1536Mi", "-1.5Gi"),
        ("memory", "500", "500"),
        ("memory", "0", "0"),
        ("pods", "5500", "5500"),
        ("cpu", "what", "what"),
    ] {
        assert_eq!(for_people(resource, amount), expected, "{resource} {amount}");
    }
}
