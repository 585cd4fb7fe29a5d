//! The shortest story that goes wrong in the same way.
use anyhow::Result;

use crate::story::{FaultKind, Story};
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
    100 * (story.faults.len() + story.gangs.len() + story.processes() + story.nodes.len()) + pods
}

/// Stories with one thing less. A gang that goes leaves an empty one behind, for faults name gangs by number; the last
/// node and the last process go where no fault names them.
fn smaller(story: &Story) -> Vec<Story> {
    let with = |change: &dyn Fn(&mut Story)| {
        let mut less = story.clone();
        change(&mut less);
        less
    };
    let without_fault =
        |at| with(&|less: &mut Story| less.faults = [&less.faults[..at], &less.faults[at + 1..]].concat());
    let mut all: Vec<Story> = (0..story.faults.len()).map(without_fault).collect();
    let there = || story.gangs.iter().enumerate().filter(|(_, gang)| gang.size > 0).map(|(at, _)| at);
    all.extend(there().map(|at| {
        with(&|less| {
            let gang = &mut less.gangs[at];
            (gang.arrives, gang.size, gang.min) = (u64::MAX / 2, 0, 0);
        })
    }));
    let names = |wanted: Named| story.faults.iter().any(|fault| named(&fault.kind) == Some(wanted));
    if story.controllers > 1 && !names(Named::Process(story.processes() - 1)) {
        all.push(with(&|less| less.controllers -= 1));
    }
    if story.nodes.len() > 1 && !names(Named::Node(story.nodes.len() - 1)) {
        all.push(with(&|less| less.nodes.truncate(story.nodes.len() - 1)));
    }
    let is_elastic = |at: &usize| story.gangs[*at].size > story.gangs[*at].min && !names(Named::Gang(*at));
    all.extend(there().filter(is_elastic).map(|at| with(&|less| less.gangs[at].size -= 1)));
    all
}

/// What a fault names by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Process(usize),
    Node(usize),
    Gang(usize),
}

fn named(kind: &FaultKind) -> Option<Named> {
    use FaultKind as Kind;
    match *kind {
        Kind::WatchBreaks(who, _)
        | Kind::WatchExpires(who, _)
        | Kind::ListExpires(who, _)
        | Kind::WatchLags(who, _)
        | Kind::WatchDoubles(who, _)
        | Kind::Crash(who, _)
        | Kind::Pause(who)
        | Kind::ClockSet(who, _) => Some(Named::Process(who)),
        Kind::NodeDies(node)
        | Kind::NodeRemoved(node)
        | Kind::NodeUnready(node)
        | Kind::NodeCordoned(node)
        | Kind::KubeletRejects(node) => Some(Named::Node(node)),
        Kind::PodDeleted(gang, _) | Kind::GangDeleted(gang) => Some(Named::Gang(gang)),
        Kind::Answers(..) | Kind::QueueCloses(_) | Kind::Reload(_) => None,
    }
}
