//! Bytes that are like those of a corpus.
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// The longest input.
const LONGEST: usize = 64 << 10;

/// What texts of these formats are made of.
const TOKENS: [&[u8]; 32] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"\"",
    b"'",
    b":",
    b",",
    b"- ",
    b"\n",
    b"  ",
    b"&x ",
    b"*x",
    b"!",
    b"#",
    b"|",
    b"0",
    b"-1",
    b"1e400",
    b"9223372036854775807",
    b"0.5",
    b"Ki",
    b"null",
    b"true",
    b"\xff",
    b"\0",
    b"\\u0000",
    b"\xc3\xa9",
    b"\x80",
    b"\x7f",
];

/// Draws inputs; the same seed draws the same ones.
pub(crate) struct Inputs {
    random: Pcg64,
    corpus: Vec<Vec<u8>>,
}

impl Inputs {
    pub(crate) fn new(corpus: Vec<Vec<u8>>, seed: u64) -> Self {
        Self { random: Pcg64::seed_from_u64(seed), corpus }
    }

    /// A file of the corpus after some changes.
    pub(crate) fn draw(&mut self) -> Vec<u8> {
        let mut bytes = self.file();
        for _ in 0..self.random.random_range(0..6) {
            bytes = self.changed(&bytes);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn file(&mut self) -> Vec<u8> {
        self.corpus[self.random.random_range(0..self.corpus.len())].clone()
    }

    fn place(&mut self, bytes: &[u8]) -> usize {
        self.random.random_range(0..=bytes.len())
    }

    /// After a change.
    fn changed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let at = self.place(bytes);
        match self.random.random_range(0..11) {
            // Other bytes in place of some.
            0..6 => {
                let rest = (at + self.random.random_range(0..9)).min(bytes.len());
                [&bytes[..at], &self.token(), &bytes[rest..]].concat()
            }
            // A part once more, or very often: what is within itself gets deep.
            6..8 => {
                let part = &bytes[at..(at + self.random.random_range(1..40)).min(bytes.len())];
                let most = LONGEST / part.len().max(1);
                let times = [1, 20, most][self.random.random_range(0..3)].min(most);
                [&bytes[..at], &part.repeat(times), &bytes[at..]].concat()
            }
            // The rest of another file.
            8..10 => {
                let other = self.file();
                let from = self.place(&other);
                [&bytes[..at], &other[from..]].concat()
            }
            // The end is missing.
            _ => bytes[..at].to_vec(),
        }
    }

    fn token(&mut self) -> Vec<u8> {
        if self.random.random_bool(0.7) {
            return TOKENS[self.random.random_range(0..TOKENS.len())].to_vec();
        }
        let mut bytes = vec![0; self.random.random_range(0..8)];
        self.random.fill_bytes(&mut bytes);
        bytes
    }
}
