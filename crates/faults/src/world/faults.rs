//! Faults begin and end.
use std::ops::Range;

use anyhow::Result;

use super::{Happening, World};
use crate::gangs;
use crate::process::REQUEST_TIMEOUT;
use crate::story::{Answer, FaultKind, Micros, SECOND, Watched};

impl World<'_> {
    pub(super) fn begins(&mut self, index: usize) -> Result<()> {
        let fault = &self.story.faults[index];
        self.tell(|| format!("FAULT: {}", fault.kind));
        self.active.push(index);
        match fault.kind {
            FaultKind::WatchBreaks(who, kind)
            | FaultKind::WatchExpires(who, kind)
            | FaultKind::ListExpires(who, kind) => self.break_off(who, kind),
            FaultKind::NodeDies(node) | FaultKind::NodeRemoved(node) => self.node_dies(node),
            FaultKind::PodDeleted(gang, pod) => {
                self.remove_now(&gangs::pod_name(gang, pod, self.story.gangs[gang].maker));
            }
            FaultKind::GangDeleted(gang) => self.delete_gang(gang),
            FaultKind::Crash(who, 0) => self.kill(who),
            FaultKind::Crash(who, request) => {
                if let Some(process) = &mut self.processes[who] {
                    process.dies_with = Some(request);
                }
            }
            FaultKind::Pause(who) => self.pause(who, fault.at + fault.lasts),
            FaultKind::ClockSet(who, by) => {
                if let Some(process) = &self.processes[who] {
                    process.clocks.set_wall(by);
                }
            }
            FaultKind::Reload(conf) => self.reload(conf)?,
            FaultKind::NodeUnready(node) => self.set_ready(node, false),
            FaultKind::NodeCordoned(node) => self.cordon(node, true),
            FaultKind::QueueCloses(queue) => {
                gangs::command(&mut self.server, "CloseQueue", queue, self.clocks.now());
            }
            FaultKind::WatchLags(..)
            | FaultKind::WatchDoubles(..)
            | FaultKind::Answers(..)
            | FaultKind::KubeletRejects(_) => {}
        }
        if let FaultKind::ListExpires(who, kind) = fault.kind {
            self.list_again(who, kind, 10_000..200_000);
        }
        Ok(())
    }

    pub(super) fn ends(&mut self, index: usize) -> Result<()> {
        let kind = self.story.faults[index].kind.clone();
        if matches!(kind, FaultKind::NodeRemoved(_)) {
            return Ok(());
        }
        self.active.retain(|active| *active != index);
        if kind.ends() {
            self.tell(|| format!("OVER: {kind}"));
        }
        match kind {
            FaultKind::WatchBreaks(who, kind) => self.resume(who, kind)?,
            FaultKind::WatchExpires(who, kind) => self.list_again(who, kind, 10_000..200_000),
            FaultKind::NodeDies(node) if !self.is_active(&FaultKind::NodeRemoved(node)) => {
                self.node_returns(node);
            }
            FaultKind::NodeUnready(node) if !self.is_unready(node) => self.set_ready(node, true),
            FaultKind::NodeCordoned(node) if !self.is_active(&FaultKind::NodeCordoned(node)) => {
                self.cordon(node, false);
            }
            FaultKind::QueueCloses(queue) => {
                gangs::command(&mut self.server, "OpenQueue", queue, self.clocks.now());
            }
            FaultKind::Crash(who, _) => {
                if let Some(process) = &mut self.processes[who] {
                    process.dies_with = None;
                }
                let at = self.now();
                self.plan(at, Happening::Start(who));
            }
            _ => {}
        }
        Ok(())
    }

    fn break_off(&mut self, who: usize, kind: Watched) {
        if let Some(process) = &mut self.processes[who] {
            process.watches.break_off(kind);
        }
    }

    /// Goes on at the last version, unless another fault made this process list again meanwhile.
    fn resume(&mut self, who: usize, kind: Watched) -> Result<()> {
        if let Some(process) = &mut self.processes[who]
            && process.watches.can_resume(kind)
        {
            process.watches.resume(kind, &self.server)?;
            self.step(who);
        }
        Ok(())
    }

    /// A list begins from its first page, after a while.
    pub(super) fn list_again(&mut self, who: usize, kind: Watched, after: Range<Micros>) {
        if let Some(process) = &self.processes[who] {
            let life = process.life;
            self.plan_in(after, Happening::FirstPage(who, life, kind));
        }
    }

    /// A page of a list meets the fault that is active, like other requests; then another list follows.
    pub(super) fn list_fails(&mut self, who: usize, kind: Watched) -> bool {
        let wait = match self.answer_of_fault() {
            None | Some(Answer::Conflict | Answer::Late) => return false,
            Some(Answer::RequestLost | Answer::ReplyLost) => REQUEST_TIMEOUT..REQUEST_TIMEOUT + SECOND,
            Some(Answer::Busy | Answer::Trouble | Answer::DoneTrouble | Answer::Refused) => {
                50_000..2 * SECOND
            }
        };
        self.tell(|| format!("process {who} cannot list {}", kind.plural()));
        self.list_again(who, kind, wait);
        true
    }

    /// The process is gone.
    pub(super) fn kill(&mut self, who: usize) {
        self.processes[who] = None;
    }

    fn pause(&mut self, who: usize, until: u64) {
        if let Some(process) = &mut self.processes[who] {
            process.paused_until = until;
        }
    }

    fn reload(&mut self, conf: usize) -> Result<()> {
        self.conf = conf;
        self.checks.conf_changed();
        for who in 0..self.processes.len() {
            if let Some(process) = &mut self.processes[who] {
                process.reload(conf)?;
                // A process that is stopped takes the configuration in when it goes on.
                let goes_on = process.paused_until;
                if goes_on <= self.clocks.now() {
                    self.step(who);
                } else {
                    self.wake_at(who, goes_on);
                }
            }
        }
        Ok(())
    }

    /// A process that lost its lease ends, and is started again.
    pub(super) fn gives_up(&mut self, who: usize) {
        self.tell(|| format!("process {who} has lost the lease and ends"));
        self.kill(who);
        self.plan_in(SECOND..2 * SECOND, Happening::Start(who));
    }
}
