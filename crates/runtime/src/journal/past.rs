//! All that a journal tells of one object, and how far back it reaches.
use std::collections::VecDeque;
use std::fmt;

use phalanx_cluster::event::Key;
use phalanx_explain::{self as explain, Question};
use serde::{Deserialize, Serialize};

use super::history::{Happened, Subject, history};
use super::line::Line;
use super::read::{ReadError, Reader};

/// Lines that are told, the last ones.
const TOLD_MAX: usize = 10_000;

/// What was decided about one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// A line for each decision, oldest first.
    pub lines: VecDeque<String>,
    /// Lines before these, which are left out.
    pub left_out: usize,
    /// When the first and the last cycle were that the journal has.
    pub reach: Option<[String; 2]>,
    /// The journal begins with the start of a scheduler: nothing before it was removed.
    pub is_whole: bool,
}

/// Why nothing is told.
#[derive(Debug, thiserror::Error)]
pub enum NoPast {
    /// A journal does not tell of objects of this kind.
    #[error(
        "--journal tells of pods, PodGroups and Jobs of Volcano, expected pod, podgroup or job in place of {0}"
    )]
    Kind(String),
    /// Nothing was decided.
    #[error("nothing was decided about {subject}; {reach}")]
    Nothing {
        /// The kind and the name.
        subject: String,
        /// From when to when the journal reaches.
        reach: String,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl Past {
    /// Reads a journal.
    pub fn of(journal: Reader, question: &Question) -> Result<Self, NoPast> {
        let subject = subject(question)?;
        let (mut past, mut found, mut first) = (Self::default(), false, true);
        for line in journal.about(&question.name) {
            let line = line?;
            past.is_whole |= std::mem::take(&mut first) && matches!(line, Line::Start(_));
            match &line {
                Line::Cycle(cycle) => past.reaches(&cycle.time),
                Line::Dropped(1) => past.tell("1 journal line missing here".to_owned()),
                Line::Dropped(lines) => past.tell(format!("{lines} journal lines missing here")),
                _ => {}
            }
            for Happened { time, cycle, what } in history(&line, &subject) {
                past.tell(format!("{time}  {what} (cycle {cycle})"));
                found = true;
            }
        }
        if found { Ok(past) } else { Err(past.nothing_about(&subject)) }
    }

    fn reaches(&mut self, time: &str) {
        match &mut self.reach {
            Some([_, last]) => time.clone_into(last),
            None => self.reach = Some([time.to_owned(), time.to_owned()]),
        }
    }

    fn tell(&mut self, line: String) {
        if self.lines.len() == TOLD_MAX {
            self.lines.pop_front();
            self.left_out += 1;
        }
        self.lines.push_back(line);
    }

    fn nothing_about(&self, subject: &Subject) -> NoPast {
        let reach = match &self.reach {
            None => "the journal has no cycle".to_owned(),
            Some([first, last]) => format!("the journal reaches from {first} to {last}"),
        };
        NoPast::Nothing { subject: subject.to_string(), reach }
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn subject(question: &Question) -> Result<Subject, NoPast> {
    let key = Key::new(&question.namespace, &question.name);
    match &question.subject {
        explain::Subject::Pod => Ok(Subject::Pod(key)),
        explain::Subject::PodGroup => Ok(Subject::PodGroup(key)),
        explain::Subject::Owner(kind) if kind == "Job" => Ok(Subject::Job(key)),
        explain::Subject::Owner(kind) => Err(NoPast::Kind(kind.clone())),
    }
}
