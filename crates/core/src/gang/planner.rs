//! Tries the strategies for one gang, and notes what came of it.
use std::sync::Arc;

use phalanx_cluster::diagnosis::{Refusal, TopologyFault};
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::search_budget::Cut;

use super::greedy::{Greedy, GreedyPass};
use super::{Goal, Request, STRATEGIES, Served, TaskQueue};
use super::{hyper_nodes, refuse_all, refuse_reserved, repair, reserved, takeover};
use crate::failed_searches::SearchKey;
use crate::reservation;
use crate::searches::{PlacementBudget, Turn};
use crate::session::Session;
use crate::statement::Statement;

/// The most milliseconds of one search for the places of a gang.
const MOST_MS: u64 = 1_000;

/// Plans one gang.
pub(super) struct GangPlanner<'q> {
    job: JobId,
    /// The tasks that the greedy strategy places, in order.
    queue: &'q mut TaskQueue,
    /// What the greedy strategy came to without a takeover, once it has run.
    greedy: Option<GreedyPass>,
    /// All members, for the strategies that search; empty until the first of them asks.
    members: Arc<[TaskId]>,
    /// Steps of the searches for a way to start the gang at once, if any was made.
    start_steps: Option<u64>,
    /// Why the last search that was ended before it had an answer was ended.
    cut: Option<Cut>,
    /// Why no HyperNode can take the gang.
    fault: Option<TopologyFault>,
    /// The turn of the placement_budget, once one began.
    turn: Option<Turn>,
}

/// A plan that the Statement holds.
pub(super) struct Planned {
    goal: Goal,
    /// Jobs whose reservations the plan takes over.
    outranked: Vec<JobId>,
    /// Why the job may not start though it has its places, where a plugin tells.
    not_ready: Option<Refusal>,
}

impl<'q> GangPlanner<'q> {
    pub(super) fn new(job: JobId, queue: &'q mut TaskQueue) -> Self {
        Self {
            job,
            queue,
            greedy: None,
            members: Arc::default(),
            start_steps: None,
            cut: None,
            fault: None,
            turn: None,
        }
    }

    /// Leaves the first plan that is found in the Statement.
    pub(super) fn plan(&mut self, statement: &mut Statement<'_, '_>) -> Option<Planned> {
        repair::take_back(statement, self.job);
        let planned = [Goal::Start, Goal::Reserve].into_iter().find_map(|goal| {
            let outranked = self.find_in_domains(statement, Request { job: self.job, goal })?;
            Some(Planned { goal, outranked, not_ready: statement.session().not_ready(self.job) })
        });
        statement.session().chosen_nodes = None;
        if self.turn.is_some() {
            let Session { search_time, placement_budget, .. } = statement.session();
            search_time.end(placement_budget.budget());
        }
        planned
    }

    /// Tries one HyperNode after the other for a gang with a network topology or sub-groups, and all strategies for any
    /// other gang.
    fn find_in_domains(&mut self, statement: &mut Statement<'_, '_>, request: Request) -> Option<Vec<JobId>> {
        if !hyper_nodes::applies(statement.session(), self.job) {
            return self.find(statement, request);
        }
        statement.session().chosen_nodes = None;
        if statement.nested(|statement| reserved::find(statement, request)).is_some() {
            return Some(Vec::new());
        }
        self.queue.restart(statement.session());
        let tasks: Vec<TaskId> = self.queue.by_ref().collect();
        let domains = match hyper_nodes::domains(statement.session(), request, &tasks) {
            Ok(domains) => domains,
            Err(fault) => {
                self.fault = Some(fault);
                return None;
            }
        };
        let mut in_domain =
            |domain| statement.nested(|statement| hyper_nodes::find_in(statement, request, domain, &tasks));
        if domains.iter().any(|domain| in_domain(domain).is_some()) {
            return Some(Vec::new());
        }
        let has_sub_groups = !statement.session().cluster.jobs[self.job].sub_groups.is_empty();
        domains.iter().filter(|_| !has_sub_groups).find_map(|domain| {
            hyper_nodes::choose(statement.session(), self.job, domain, false);
            self.greedy = None;
            self.queue.restart(statement.session());
            self.find(statement, request)
        })
    }

    /// Tries all strategies, then with reservations of other jobs taken over. Returns the jobs that lose some.
    fn find(&mut self, statement: &mut Statement<'_, '_>, request: Request) -> Option<Vec<JobId>> {
        for strategy in &STRATEGIES {
            if strategy.search.is_some_and(|may_help| !self.may_find(statement, request, may_help)) {
                continue;
            }
            let before = statement.session().placement_budget.left();
            match statement.nested(|statement| (strategy.find)(self, statement, request)) {
                Ok(Some(_)) => return Some(Vec::new()),
                Ok(None) => {}
                Err(cut) => self.cut = Some(cut),
            }
            if strategy.search.is_some() && request.goal == Goal::Start {
                let steps = before.saturating_sub(statement.session().placement_budget.left());
                *self.start_steps.get_or_insert(0) += steps;
            }
        }
        self.find_by_takeover(statement, request)
    }

    /// Whether a search may find what the greedy strategy and the last search did not, or resources that are being
    /// released.
    fn may_find(
        &mut self,
        statement: &mut Statement<'_, '_>,
        request: Request,
        may_help: fn(&Session<'_>, &[TaskId]) -> bool,
    ) -> bool {
        if backs_off(statement.session(), request) {
            return false;
        }
        if request.goal == Goal::Start {
            self.start_steps.get_or_insert(0);
        }
        let members = self.members(statement);
        let session = statement.session();
        let any_releasing = || session.cluster.nodes.iter().any(|(_, node)| !node.releasing.is_zero());
        let may_find = may_help(session, &members) && (request.goal == Goal::Start || any_releasing());
        if may_find {
            self.begin_turn(session);
        }
        may_find
    }

    /// Takes over the reservations of as few jobs as it takes, by the greedy strategy; then, for a gang without a
    /// reservation of its own, those of all by the strategies that search.
    fn find_by_takeover(
        &mut self,
        statement: &mut Statement<'_, '_>,
        request: Request,
    ) -> Option<Vec<JobId>> {
        let candidates = takeover::candidates(statement.session(), self.job);
        let (mut count, mut more) = (1, 1);
        while count <= candidates.len() {
            self.queue.restart(statement.session());
            statement.session().placement_budget.spend(self.job, self.queue.left()).ok()?;
            let found = self.find_over(statement, &candidates[..count], |planner, statement| {
                Ok(Greedy::default().run(statement, planner.job, planner.queue).reached(request))
            });
            if found.is_some() {
                return found;
            }
            count = if count == candidates.len() { count + 1 } else { candidates.len().min(count + more) };
            more *= 2;
        }
        if candidates.is_empty() || reserved::is_reserved(statement.session(), self.job) {
            return None;
        }
        self.begin_turn(statement.session());
        let searches = STRATEGIES.iter().filter(|strategy| strategy.search.is_some());
        searches.into_iter().find_map(|strategy| {
            self.find_over(statement, &candidates, |planner, statement| {
                (strategy.find)(planner, statement, request)
            })
        })
    }

    /// The first search for the places of the gang begins the turn of all of them.
    fn begin_turn(&mut self, session: &mut Session<'_>) {
        if self.turn.is_none() {
            let longer =
                session.state.failed_searches.next_turn(&SearchKey::start(session.cluster, self.job));
            let Session { search_time, placement_budget, .. } = session;
            self.turn = Some(search_time.begin(longer, MOST_MS, placement_budget.budget()));
        }
    }

    /// Finds places with the reservations of these jobs taken back, and gives back those that still fit. Returns the
    /// jobs that lose some.
    fn find_over(
        &mut self,
        statement: &mut Statement<'_, '_>,
        candidates: &[JobId],
        find: impl FnOnce(&mut Self, &mut Statement<'_, '_>) -> Result<Option<Goal>, Cut>,
    ) -> Option<Vec<JobId>> {
        statement.nested(|statement| {
            let taken = takeover::take_back(statement, candidates);
            find(self, statement).ok().flatten()?;
            Some(takeover::give_back(statement, taken, self.job))
        })
    }

    /// All members without a node of their own, those without requests last.
    pub(super) fn members(&mut self, statement: &mut Statement<'_, '_>) -> Arc<[TaskId]> {
        if self.members.is_empty() {
            self.members = TaskQueue::of_all(statement.session(), self.job).into_tasks().into();
        }
        Arc::clone(&self.members)
    }

    /// The greedy strategy. It runs once: where it found places that have to be released, these are taken for a
    /// reservation.
    pub(super) fn greedy(&mut self, statement: &mut Statement<'_, '_>, request: Request) -> Option<Goal> {
        if let Some(pass) = &self.greedy {
            return pass.repeat(statement, request);
        }
        let pass = Greedy::default().run(statement, self.job, self.queue);
        self.greedy.insert(pass).reached(request)
    }

    /// The gang has a plan.
    pub(super) fn end_planned(mut self, session: &mut Session<'_>, planned: Planned) -> Served {
        repair::end(session, self.job);
        takeover::tell(session, &planned.outranked, self.job);
        let refusals = self.greedy.take().map(GreedyPass::into_refusals).unwrap_or_default();
        if planned.goal == Goal::Reserve {
            refuse_reserved(session, self.job, planned.not_ready, refusals);
            match self.cut.filter(|cut| PlacementBudget::is_cut_short(*cut)) {
                Some(cut) => self.note_cut(session, cut),
                None => self.note_failure(session),
            }
            return Served::Done;
        }
        if self.turn.is_some() {
            session.state.failed_searches.forget(&SearchKey::start(session.cluster, self.job));
        }
        refuse_all(session, self.job, refusals);
        self.queue.restart(session);
        if self.queue.is_empty() { Served::Done } else { Served::MoreToDo }
    }

    fn note_cut(&self, session: &mut Session<'_>, cut: Cut) {
        let used_up = self.turn.and_then(|turn| turn.used_up(cut));
        let Some(ms) = used_up else { return session.search_ended(self.job, cut) };
        let next =
            session.state.failed_searches.note_cut(SearchKey::start(session.cluster, self.job), None, ms);
        session.state.backlog.retry_at(self.job, next);
    }

    fn note_failure(&self, session: &mut Session<'_>) {
        let news = session.cluster.retry_events();
        if let Some(steps) = self.start_steps {
            session.state.failed_searches.note(
                SearchKey::start(session.cluster, self.job),
                None,
                steps,
                news,
            );
        }
    }

    /// No strategy found places: a gang that lost members keeps room for them, any other gang gives up its reservation.
    pub(super) fn end_refused(mut self, session: &mut Session<'_>) -> Served {
        let mut refusals = self.greedy.take().map(GreedyPass::into_refusals).unwrap_or_default();
        if let Some(cut) = self.cut {
            self.note_cut(session, cut);
        }
        let cut = self.cut.or_else(|| cut_before(session, self.job));
        refusals.extend(cut.map(Refusal::Search));
        refusals.extend(self.fault.take().map(Refusal::Topology));
        if !repair::keep_places(session, self.job) {
            reservation::release(session, self.job);
        }
        refuse_all(session, self.job, refusals);
        Served::Done
    }
}

/// How a search for a gang was cut short whose next turn is to come.
fn cut_before(session: &Session<'_>, job: JobId) -> Option<Cut> {
    if session.state.failed_searches.is_empty() {
        return None;
    }
    session.state.failed_searches.cut_before(&SearchKey::start(session.cluster, job))
}

/// Whether searches for a gang are not to be made again yet: one was cut short, or one for a way to start a gang with a
/// reservation failed.
fn backs_off(session: &mut Session<'_>, request: Request) -> bool {
    if session.state.failed_searches.is_empty() {
        return false;
    }
    let (key, news) = (SearchKey::start(session.cluster, request.job), session.cluster.retry_events());
    let was_cut = session.state.failed_searches.next_turn(&key).is_some();
    let may_back_off = request.goal == Goal::Start && reserved::is_reserved(session, request.job);
    if !was_cut && !may_back_off {
        return false;
    }
    let Some(known) = session.state.failed_searches.answer(&key, news) else { return false };
    if let Some(until) = known.until {
        session.state.backlog.retry_at(request.job, until);
    }
    true
}
