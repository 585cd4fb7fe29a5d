//! No target panics, overflows a small stack, takes long or holds much more memory than its input.
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use phalanx_fuzzing::{TARGETS, Target};

use crate::bytes::Inputs;
use crate::corpus::files;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// A quarter of the stack that the thread of the cycle has.
const STACK: usize = 512 << 10;
/// What an input may take: far more than any does, so that a busy machine fails no test.
const LONGEST: Duration = Duration::from_secs(20);
/// What a target may hold at once for each byte of its input.
const BYTES_EACH: usize = 400;

/// One target at a time: memory is counted for the process.
static TURN: Mutex<()> = Mutex::new(());

fn on_a_small_stack(run: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).unwrap();
        if let Err(panic) = thread.join() {
            resume_unwind(panic);
        }
    });
}

fn run(target: &Target, input: &[u8]) {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let begun = Instant::now();
    (target.run)(input);
    let took = begun.elapsed();
    let held = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(took < LONGEST, "{}: {took:?}", target.name);
    let most = target.holds + BYTES_EACH * input.len();
    assert!(held <= most, "{}: held {held} bytes for {} of input", target.name, input.len());
}

pub(crate) fn holds(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let corpus: Vec<Vec<u8>> = files(name).into_iter().map(|(_, bytes)| bytes).collect();
    let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    on_a_small_stack(|| {
        (target.run)(b"");
        for input in &corpus {
            run(target, input);
        }
        let mut inputs = Inputs::new(corpus.clone(), variable("PROPTEST_RNG_SEED", 0));
        for _ in 0..variable("PROPTEST_CASES", 2_000) {
            let input = inputs.draw();
            run_or_keep(target, &input);
        }
    });
    drop(turn);
}

/// An input that fails is printed as the text of a file for the corpus.
fn run_or_keep(target: &Target, input: &[u8]) {
    let ran = catch_unwind(AssertUnwindSafe(|| run(target, input)));
    if let Err(panic) = ran {
        println!("input of {}: b\"{}\"", target.name, input.escape_ascii());
        resume_unwind(panic);
    }
}

/// The number in a variable, those of other properties.
fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn scheduler_conf_is_read_whatever_it_holds() {
    holds("scheduler_conf");
}

#[test]
fn quantities_are_read_whatever_they_hold() {
    holds("quantity");
}

#[test]
fn selectors_are_read_whatever_they_hold() {
    holds("selector");
}

#[test]
fn cel_is_read_whatever_it_holds() {
    holds("cel");
}

#[test]
fn protobuf_is_read_whatever_it_holds() {
    holds("protobuf");
}

#[test]
fn json_objects_are_read_whatever_they_hold() {
    holds("json_object");
}

#[test]
fn objects_of_the_controllers_are_read_whatever_they_hold() {
    holds("controller_object");
}

#[test]
fn extender_replies_are_read_whatever_they_hold() {
    holds("extender_reply");
}
