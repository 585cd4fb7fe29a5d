//! Faults begin and end.
use anyhow::Result;

use super::{Happening, World};
use crate::gangs;
use crate::story::{FaultKind, SECOND, Watched};

impl World<'_> {
    pub(super) fn begins(&mut self, index: usize) -> Result<()> {
        let fault = &self.story.faults[index];
        self.tell(|| format!("FAULT: {}", fault.kind));
        self.active.push(index);
        match fault.kind {
            FaultKind::WatchBreaks(scheduler, kind)
            | FaultKind::WatchExpires(scheduler, kind)
            | FaultKind::ListExpires(scheduler, kind) => self.break_off(scheduler, kind),
            FaultKind::NodeDies(node) => self.node_dies(node),
            FaultKind::PodDeleted(gang, pod) => self.remove_now(&gangs::pod_name(gang, pod)),
            FaultKind::Crash(scheduler) => self.kill(scheduler),
            FaultKind::Pause(scheduler) => self.pause(scheduler, fault.at + fault.lasts),
            FaultKind::ClockSet(scheduler, by) => {
                if let Some(process) = &self.processes[scheduler] {
                    process.clocks.set_wall(by);
                }
            }
            FaultKind::Reload(conf) => self.reload(conf)?,
            FaultKind::WatchLags(..)
            | FaultKind::WatchDoubles(..)
            | FaultKind::Answers(_)
            | FaultKind::KubeletRejects(_) => {}
        }
        if let FaultKind::ListExpires(scheduler, kind) = fault.kind {
            self.list_again(scheduler, kind);
        }
        Ok(())
    }

    pub(super) fn ends(&mut self, index: usize) -> Result<()> {
        self.active.retain(|active| *active != index);
        match self.story.faults[index].kind {
            FaultKind::WatchBreaks(scheduler, kind) => self.resume(scheduler, kind)?,
            FaultKind::WatchExpires(scheduler, kind) => self.list_again(scheduler, kind),
            FaultKind::NodeDies(node) => self.node_returns(node),
            FaultKind::Crash(scheduler) => {
                let at = self.now();
                self.plan(at, Happening::Start(scheduler));
            }
            _ => {}
        }
        Ok(())
    }

    fn break_off(&mut self, scheduler: usize, kind: Watched) {
        if let Some(process) = &mut self.processes[scheduler] {
            process.watches.break_off(kind);
        }
    }

    /// Goes on at the last version, unless another fault made this scheduler list again meanwhile.
    fn resume(&mut self, scheduler: usize, kind: Watched) -> Result<()> {
        if let Some(process) = &mut self.processes[scheduler]
            && process.watches.can_resume(kind)
        {
            process.watches.resume(kind, &self.server)?;
            self.step(scheduler);
        }
        Ok(())
    }

    fn list_again(&mut self, scheduler: usize, kind: Watched) {
        if let Some(process) = &self.processes[scheduler] {
            let life = process.life;
            self.plan_in(10_000..200_000, Happening::FirstPage(scheduler, life, kind));
        }
    }

    /// The process is gone; requests that have left arrive.
    pub(super) fn kill(&mut self, scheduler: usize) {
        self.processes[scheduler] = None;
    }

    fn pause(&mut self, scheduler: usize, until: u64) {
        if let Some(process) = &mut self.processes[scheduler] {
            process.paused_until = until;
        }
    }

    fn reload(&mut self, conf: usize) -> Result<()> {
        self.conf = conf;
        for scheduler in 0..self.processes.len() {
            if let Some(process) = &mut self.processes[scheduler] {
                process.reload(conf)?;
                // A process that is stopped takes the configuration in when it goes on.
                if process.paused_until <= self.clocks.now() {
                    self.step(scheduler);
                }
            }
        }
        Ok(())
    }

    /// A process that lost its lease ends, and is started again.
    pub(super) fn gives_up(&mut self, scheduler: usize) {
        self.tell(|| format!("scheduler {scheduler} has lost the lease and ends"));
        self.kill(scheduler);
        self.plan_in(SECOND..2 * SECOND, Happening::Start(scheduler));
    }
}
