//! The path of a check in an object.
use std::fmt;

/// The path; it is written out only for a problem.
pub(super) enum Path<'p> {
    Top,
    Key(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// A status may be incomplete: controllers of the simulation fill it in.
    pub(super) fn is_in_status(&self) -> bool {
        match self {
            Path::Top => false,
            Path::Key(Path::Top, key) => *key == "status",
            Path::Key(parent, _) | Path::Item(parent, _) => parent.is_in_status(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Top => Ok(()),
            Path::Key(Path::Top, key) => f.write_str(key),
            Path::Key(parent, key) => write!(f, "{parent}.{key}"),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
