//! The targets on their corpus, and on bytes that are like those of the corpus.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]

mod bytes;
mod corpus;
mod properties;
