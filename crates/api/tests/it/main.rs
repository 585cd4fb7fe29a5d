//! What an operator or a client meets: the definitions that are installed, and objects decoded.
#![expect(clippy::unwrap_used, reason = "tests")]

mod decode;
mod definitions;
mod jobs;
mod structural;
