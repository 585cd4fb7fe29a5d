//! Tries the strategies for one gang, and notes what came of it.
use std::sync::Arc;

use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::search_budget::Cut;

use super::greedy::{Greedy, GreedyPass};
use super::hyper_nodes::{Enough, Placing};
use super::sub_groups::WaitingSubGroups;
use super::{GREEDY, GangStrategy, Goal, HYPER_NODES, RESERVED, Request, STRATEGIES, Served, TaskQueue};
use super::{hyper_nodes, repair, reserved, takeover};
use crate::failed_searches::SearchKey;
use crate::network::{Domain, Room};
use crate::reservation;
use crate::searches::{PlacementBudget, Turn};
use crate::session::Session;
use crate::statement::Statement;

/// The most milliseconds of one search for the places of a gang.
const MOST_MS: u64 = 1_000;

/// Plans one gang.
pub(super) struct GangPlanner<'q> {
    job: JobId,
    /// What a failed search for a way to start the gang is known by.
    key: SearchKey,
    /// The tasks that the greedy strategy places, in order.
    queue: &'q mut TaskQueue,
    /// What the greedy strategy came to without a takeover, once it has run.
    greedy: Option<GreedyPass>,
    /// All members, for the strategies that search; empty until the first of them asks.
    members: Arc<[TaskId]>,
    /// Steps of the searches for a way to start the gang at once; `None` where these were not to be made.
    start_steps: Option<u64>,
    /// Why the last search that was ended before it had an answer was ended.
    cut: Option<Cut>,
    /// The HyperNodes that may have room for the gang.
    domains: Vec<Domain>,
    /// Why no HyperNode can take the gang.
    fault: Option<Refusal>,
    /// The turn of the searches, which begins with the first of them.
    turn: Option<Turn>,
}

/// A plan that the Statement holds.
pub(super) struct Planned {
    /// What its places are enough for.
    goal: Goal,
    /// The job could start before: the plan is a node for its next task.
    grows: bool,
    /// Jobs whose reservations the plan takes over.
    outranked: Vec<JobId>,
    /// Why the job may not start though it has its places, where a plugin tells.
    not_ready: Option<Refusal>,
}

impl Planned {
    fn new(session: &Session<'_>, job: JobId, goal: Goal, outranked: Vec<JobId>) -> Self {
        let not_ready = if goal == Goal::Reserve { session.not_ready(job) } else { None };
        Self { goal, grows: false, outranked, not_ready }
    }
}

impl<'q> GangPlanner<'q> {
    pub(super) fn new(session: &Session<'_>, job: JobId, queue: &'q mut TaskQueue) -> Self {
        let key = SearchKey::start(session.cluster, job);
        Self {
            job,
            key,
            queue,
            greedy: None,
            members: Arc::default(),
            start_steps: None,
            cut: None,
            domains: Vec::new(),
            fault: None,
            turn: None,
        }
    }

    /// Leaves the first plan that is found in the Statement. Where the job can start already, that is a node for its
    /// next task.
    pub(super) fn plan(&mut self, statement: &mut Statement<'_, '_>) -> Option<Planned> {
        if statement.session().job_ready(self.job) {
            let start = Request { job: self.job, goal: Goal::Start };
            let planned = self.attempt(statement, &GREEDY, start, &[]);
            return planned.map(|planned| Planned { grows: true, ..planned });
        }
        repair::take_back(statement, self.job);
        let planned = [Goal::Start, Goal::Reserve]
            .into_iter()
            .find_map(|goal| self.find_in_domains(statement, Request { job: self.job, goal }));
        statement.session().chosen_domain = None;
        if self.turn.is_some() {
            let Session { search_time, placement_budget, .. } = statement.session();
            search_time.end(placement_budget.budget());
        }
        planned
    }

    /// Tries one HyperNode after the other for a gang with a network topology or sub-groups, and all strategies for any
    /// other gang. Of the strategies for other gangs, none keeps sub-groups whole.
    fn find_in_domains(&mut self, statement: &mut Statement<'_, '_>, request: Request) -> Option<Planned> {
        if !hyper_nodes::applies(statement.session(), self.job) {
            return self.find(statement, request);
        }
        statement.session().chosen_domain = None;
        let planned = [&RESERVED, &HYPER_NODES]
            .into_iter()
            .find_map(|strategy| self.attempt(statement, strategy, request, &[]));
        if planned.is_some() {
            return planned;
        }
        let has_sub_groups = !statement.session().cluster.jobs[self.job].sub_groups.is_empty();
        let domains = if has_sub_groups { Vec::new() } else { std::mem::take(&mut self.domains) };
        let mut in_the_best = None;
        for domain in domains {
            hyper_nodes::choose(statement.session(), self.job, &domain, false);
            self.queue.restart(statement.session());
            let planned = self.find(statement, request);
            if planned.is_some() {
                return planned;
            }
            in_the_best = in_the_best.or(self.greedy.take());
        }
        self.greedy = in_the_best;
        statement.session().chosen_domain = None;
        let candidates = takeover::candidates(statement.session(), self.job);
        self.take_over(statement, &HYPER_NODES, request, &candidates)
    }

    /// Fills the HyperNodes that may have room, one after the other until one takes the gang.
    pub(super) fn hyper_nodes(
        &mut self,
        statement: &mut Statement<'_, '_>,
        request: Request,
    ) -> Option<Goal> {
        self.queue.restart(statement.session());
        let tasks: Vec<TaskId> = self.queue.by_ref().collect();
        let session = statement.session();
        let room = Room::new(session, &tasks, request.goal.into());
        let groups = WaitingSubGroups::new(session.cluster, self.job, &tasks);
        self.domains = match hyper_nodes::domains(session, self.job, &tasks, &groups, &room) {
            Ok(domains) => hyper_nodes::tried(session.cluster, domains),
            Err(fault) => {
                self.fault = Some(Refusal::Topology(fault));
                return None;
            }
        };
        let mut shortfall = hyper_nodes::Shortfall::default();
        let Request { job, goal } = request;
        let placing = Placing { job, room: &room, groups: &groups, enough: Enough::Ready };
        let mut find_in = |domain| {
            statement.nested(|statement| {
                hyper_nodes::find_in(statement, goal, placing, domain, &tasks, &mut shortfall)
            })
        };
        let found = self.domains.iter().find_map(&mut find_in);
        statement.session().chosen_domain = None;
        // A gang without sub-groups is told by the strategies that come next.
        let has_sub_groups = !statement.session().cluster.jobs[self.job].sub_groups.is_empty();
        self.fault = shortfall.into_refusal().filter(|_| has_sub_groups);
        found
    }

    /// Tries all strategies; then takes over reservations by the greedy strategy; then, for a gang without a reservation
    /// of its own, those of all jobs that it outranks by the strategies that search.
    fn find(&mut self, statement: &mut Statement<'_, '_>, request: Request) -> Option<Planned> {
        let planned = STRATEGIES.iter().find_map(|strategy| self.attempt(statement, strategy, request, &[]));
        if planned.is_some() {
            return planned;
        }
        let candidates = takeover::candidates(statement.session(), self.job);
        let planned = self.take_over(statement, &GREEDY, request, &candidates);
        if planned.is_some() || candidates.is_empty() {
            return planned;
        }
        if reserved::is_reserved(statement.session(), self.job) {
            return None;
        }
        let mut searches = STRATEGIES.iter().filter(|strategy| strategy.search.is_some());
        searches.find_map(|strategy| self.attempt(statement, strategy, request, &candidates))
    }

    /// Takes over the reservations of as few of these jobs as it takes, the first ones first.
    fn take_over(
        &mut self,
        statement: &mut Statement<'_, '_>,
        strategy: &GangStrategy,
        request: Request,
        candidates: &[JobId],
    ) -> Option<Planned> {
        let (mut count, mut more) = (0, 1);
        while count < candidates.len() {
            count = candidates.len().min(count + more);
            more = count;
            self.queue.restart(statement.session());
            statement.session().placement_budget.spend(self.job, self.queue.left()).ok()?;
            let planned = self.attempt(statement, strategy, request, &candidates[..count]);
            if planned.is_some() {
                return planned;
            }
        }
        None
    }

    /// Tries a strategy with the reservations of these jobs taken back, and gives back those that still fit.
    fn attempt(
        &mut self,
        statement: &mut Statement<'_, '_>,
        strategy: &GangStrategy,
        request: Request,
        over: &[JobId],
    ) -> Option<Planned> {
        if strategy.search.is_some_and(|may_help| !self.may_search(statement, request, may_help)) {
            return None;
        }
        let before = statement.session().placement_budget.left();
        let planned = statement.nested(|statement| {
            let taken = takeover::take_back(statement, over);
            let Some(goal) = (strategy.find)(self, statement, request)? else { return Ok(None) };
            let outranked = takeover::give_back(statement, taken, self.job);
            Ok(Some(Planned::new(statement.session(), self.job, goal, outranked)))
        });
        if over.is_empty() && strategy.search.is_some() {
            let steps = before.saturating_sub(statement.session().placement_budget.left());
            self.start_steps =
                self.start_steps.map(|sum| sum + if request.goal == Goal::Start { steps } else { 0 });
            self.cut = planned.as_ref().err().copied().or(self.cut);
        }
        planned.ok().flatten()
    }

    /// Whether a search may find what the greedy strategy and the last search did not, or resources that are being
    /// released. It is not made again while a search for the gang that was cut short backs off, nor, for a gang with a
    /// reservation, while a failed search for a way to start it stands. Begins the turn of the searches.
    fn may_search(
        &mut self,
        statement: &mut Statement<'_, '_>,
        request: Request,
        may_help: fn(&Session<'_>, &[TaskId]) -> bool,
    ) -> bool {
        let (session, key) = (statement.session(), &self.key);
        let (starts, news) = (request.goal == Goal::Start, session.cluster.retry_events());
        let longer = session.state.failed_searches.next_turn(key);
        let may_back_off = longer.is_some() || (starts && reserved::is_reserved(session, self.job));
        if may_back_off && let Some(known) = session.state.failed_searches.answer(key, news) {
            if let Some(until) = known.until {
                session.state.backlog.retry_at(self.job, until);
            }
            return false;
        }
        if starts {
            self.start_steps.get_or_insert(0);
        }
        let members = self.members(statement);
        let session = statement.session();
        let any_releasing = || session.cluster.nodes.iter().any(|(_, node)| !node.releasing.is_zero());
        let may_find = may_help(session, &members) && (starts || any_releasing());
        if may_find && self.turn.is_none() {
            let Session { search_time, placement_budget, .. } = session;
            self.turn = Some(search_time.begin(longer, MOST_MS, placement_budget.budget()));
        }
        may_find
    }

    /// All members without a node of their own, those without requests last.
    pub(super) fn members(&mut self, statement: &mut Statement<'_, '_>) -> Arc<[TaskId]> {
        if self.members.is_empty() {
            self.members = TaskQueue::of_all(statement.session(), self.job).into_tasks().into();
        }
        Arc::clone(&self.members)
    }

    /// The greedy strategy. It runs once for all goals, and anew where tasks are handed out again for a takeover.
    pub(super) fn greedy(&mut self, statement: &mut Statement<'_, '_>, request: Request) -> Option<Goal> {
        if let Some(pass) = self.greedy.as_ref().filter(|_| self.queue.is_empty()) {
            return pass.repeat(statement, request);
        }
        let pass = Greedy::default().run(statement, self.job, self.queue);
        let reached = pass.reached(request);
        self.greedy.get_or_insert(pass);
        reached
    }

    /// Notes what came of the plan, once it is committed: what the job waits for, and which search failed. Without a
    /// plan, a gang that lost members keeps room for them, and any other job gives up its reservation.
    pub(super) fn end(mut self, session: &mut Session<'_>, planned: Option<Planned>) -> Served {
        let goal = planned.as_ref().map(|planned| planned.goal);
        self.note_searches(session, goal);
        let mut refusals = self.greedy.take().map(GreedyPass::into_refusals).unwrap_or_default();
        if let Some(Planned { outranked, not_ready, .. }) = &planned {
            repair::end(session, self.job);
            takeover::tell(session, outranked, self.job);
            let reserved = session.cluster.jobs[self.job].counts.of(Status::Pipelined);
            // A job that may keep less than it needs, and got nothing, waits for what refused it.
            if goal == Some(Goal::Reserve) && (reserved > 0 || not_ready.is_some()) {
                refusals = vec![not_ready.clone().unwrap_or(Refusal::Reserved(reserved))];
            }
        } else {
            let cut = self.cut.or_else(|| session.state.failed_searches.cut_before(&self.key));
            refusals.extend(cut.map(Refusal::Search));
            refusals.extend(self.fault.take());
            if !repair::keep_places(session, self.job) {
                reservation::release(session, self.job);
            }
        }
        for refusal in refusals {
            session.refuse(self.job, refusal);
        }
        if goal != Some(Goal::Start) {
            return Served::Done;
        }
        if !planned.is_some_and(|planned| planned.grows) {
            self.queue.restart(session);
        }
        if self.queue.is_empty() { Served::Done } else { Served::MoreToDo }
    }

    /// Notes how the searches for the gang ended, which have reached a goal or none.
    fn note_searches(&self, session: &mut Session<'_>, goal: Option<Goal>) {
        let state = &mut *session.state;
        // With a reservation, a search that would not get further in another cycle counts as failed.
        let cut = self.cut.filter(|cut| goal.is_none() || PlacementBudget::is_cut_short(*cut));
        match (goal, cut, self.start_steps) {
            (Some(Goal::Start), ..) if self.turn.is_some() => state.failed_searches.forget(&self.key),
            (Some(Goal::Start), ..) => {}
            (_, Some(cut), _) => match self.turn.and_then(|turn| turn.used_up(cut)) {
                Some(ms) => {
                    let next = state.failed_searches.note_cut(self.key.clone(), None, ms);
                    state.backlog.retry_at(self.job, next);
                }
                None => session.search_ended(self.job, cut),
            },
            (Some(Goal::Reserve), None, Some(steps)) => {
                let news = session.cluster.retry_events();
                state.failed_searches.note(self.key.clone(), None, steps, news);
            }
            _ => {}
        }
    }
}
