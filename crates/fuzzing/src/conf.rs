//! scheduler.conf.
use phalanx_conf::{Known, Parsed, parse, render};

/// A text that is read, and what is wrong with it; a configuration is written and read again.
pub fn scheduler_conf(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let known = Known::builtin();
    let Parsed { conf, problems } = parse(&text, &known);
    for problem in &problems {
        let line = problem.in_file("scheduler.conf");
        assert!(!line.contains('\n'), "a problem is one line: {line}");
    }
    // Where no plugin is known, there are no tiers, and a configuration without any is refused.
    if let Some(conf) = conf.filter(|conf| !conf.tiers.is_empty()) {
        let again = parse(&render(&conf), &known);
        assert!(
            again.conf.is_some(),
            "what was read is written so that it can be read: {:?}",
            again.problems
        );
    }
}
