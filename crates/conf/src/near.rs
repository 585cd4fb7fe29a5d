//! Lists of what would have been right.
pub use phalanx_framework::near::nearest;

use crate::problem::quoted;

/// Lists longer than this are cut short where a near miss says enough.
const LISTED_MAX: usize = 12;

/// "one of a, b, c", where nothing was mistyped.
pub(crate) fn listed(names: &[&str]) -> String {
    one_of(names, "")
}

/// "one of a, b, c", with the near miss of `written` if there is one.
pub(crate) fn one_of(names: &[&str], written: &str) -> String {
    let list = |names: &[&str]| names.join(", ");
    match (names, nearest(names, written)) {
        ([], _) => "none".to_owned(),
        ([only], _) => quoted(only),
        (_, None) => format!("one of {}", list(names)),
        (_, Some(near)) if names.len() <= LISTED_MAX => {
            format!("one of {} (did you mean {}?)", list(names), quoted(near))
        }
        (_, Some(near)) => format!("one of {}, ... (did you mean {}?)", list(&names[..3]), quoted(near)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_only_beside_a_hint() {
        let names = ["a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8", "i9", "j10", "k11", "l12", "m13"];
        assert_eq!(one_of(&names, "m133"), r#"one of a1, b2, c3, ... (did you mean "m13"?)"#);
        assert!(one_of(&names, "nothing like it").ends_with("l12, m13"));
        assert_eq!(one_of(&names[..2], "b"), r#"one of a1, b2 (did you mean "b2"?)"#);
        assert_eq!(one_of(&[], "b"), "none");
    }
}
