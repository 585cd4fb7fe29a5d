//! The shortest story that goes wrong in the same way.
use anyhow::Result;

use crate::story::Story;
use crate::world::{Options, run};

/// Takes out of a story what is not needed for a violation of the same kind.
pub fn shrink(story: Story, options: Options) -> Result<Story> {
    let Some(kind) = kind(&story, options)? else { return Ok(story) };
    let mut best = story;
    loop {
        let before = best.clone();
        for smaller in smaller(&before) {
            if size(&smaller) < size(&best) && self::kind(&smaller, options)?.as_ref() == Some(&kind) {
                best = smaller;
                break;
            }
        }
        if best == before {
            return Ok(best);
        }
    }
}

/// The text of the violation without names, numbers and times.
fn kind(story: &Story, options: Options) -> Result<Option<String>> {
    let violation = run(story, Options { tell: false, ..options })?.violation;
    Ok(violation.map(|it| it.what.chars().filter(|letter| letter.is_alphabetic()).collect()))
}

fn size(story: &Story) -> usize {
    let pods: usize = story.gangs.iter().map(|gang| gang.size).sum();
    100 * (story.faults.len() + story.gangs.len() + story.schedulers) + pods
}

/// Stories with one thing less. A gang that goes leaves an empty one behind, for faults name gangs by number.
fn smaller(story: &Story) -> Vec<Story> {
    let mut all = Vec::new();
    for at in 0..story.faults.len() {
        let mut less = story.clone();
        less.faults.remove(at);
        all.push(less);
    }
    for at in 0..story.gangs.len() {
        let mut less = story.clone();
        less.gangs[at].arrives = u64::MAX / 2;
        less.gangs[at].size = 0;
        less.gangs[at].min = 0;
        if story.gangs[at].size > 0 {
            all.push(less);
        }
    }
    all
}
