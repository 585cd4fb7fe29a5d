//! What fuzzing runs: a function for each kind of bytes that come from outside. None may panic, hang or overflow a
//! stack of 512 KiB, or hold much more memory than the bytes; cargo-fuzz (`fuzz/`) and a property of this crate call
//! the same functions, and both begin with the files of `fuzz/corpus`.
mod cel;
mod conf;
mod controllers;
mod extender;
mod objects;
mod quantity;
mod selector;
mod world;

pub use cel::cel;
pub use conf::scheduler_conf;
pub use controllers::controller_object;
pub use extender::extender_reply;
pub use objects::{json_object, protobuf};
pub use quantity::quantity;
pub use selector::selector;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of the folder of its corpus.
    pub name: &'static str,
    /// What is run on bytes.
    pub run: fn(&[u8]),
    /// How many bytes it may hold at once, besides a multiple of those that it is run on.
    pub holds: usize,
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, holds: 4 << 20 }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("scheduler_conf", scheduler_conf),
    target("quantity", quantity),
    target("selector", selector),
    target("cel", cel),
    target("protobuf", protobuf),
    target("json_object", json_object),
    // A Job may have 100,000 pods, each with a name in what plugins make.
    Target { holds: 64 << 20, ..target("controller_object", controller_object) },
    target("extender_reply", extender_reply),
];

/// The first byte, which chooses among forms of the rest.
fn choice(bytes: &[u8]) -> (usize, &[u8]) {
    bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest))
}
