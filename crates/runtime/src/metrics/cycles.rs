//! Metrics of cycles: how long their stages take, and what they evict.
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use phalanx_core::decision::{Cause, Decision};
use phalanx_core::{Activation, Pending};
use phalanx_framework::trace::Stage;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets_range};

use crate::telemetry::Step;

use super::{Kind, Register, timing};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Action {
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(non_snake_case, reason = "the label has Volcano's name")]
struct PluginStage {
    plugin: &'static str,
    OnSession: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    pool: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    event: &'static str,
}

/// Volcano's buckets, in milliseconds.
fn of_cycle() -> Histogram {
    Histogram::new(exponential_buckets_range(1.0, 5_000.0, 20))
}

fn of_action() -> Histogram {
    Histogram::new(exponential_buckets_range(1.0, 2_000.0, 20))
}

fn of_plugin() -> Histogram {
    Histogram::new(exponential_buckets_range(0.1, 100.0, 15))
}

/// Metrics of cycles.
#[derive(Debug)]
pub(super) struct CycleMetrics {
    latency: Histogram,
    open: Histogram,
    actions: Family<Action, Histogram>,
    plugins: Family<PluginStage, Histogram>,
    cycles: Counter,
    last: Gauge<f64, AtomicU64>,
    decisions: Family<Kind, Counter>,
    pending: Family<Pool, Gauge>,
    activations: Family<Event, Counter>,
    searches: Family<Action, Counter>,
    preempt_searches: Gauge,
    victims: Family<Action, Counter>,
    last_victims: Gauge,
    evictions: Family<Action, Counter>,
}

impl Default for CycleMetrics {
    fn default() -> Self {
        Self {
            latency: of_cycle(),
            open: of_cycle(),
            actions: Family::new_with_constructor(of_action),
            plugins: Family::new_with_constructor(of_plugin),
            cycles: Counter::default(),
            last: Gauge::default(),
            decisions: Family::default(),
            pending: Family::default(),
            activations: Family::default(),
            searches: Family::default(),
            preempt_searches: Gauge::default(),
            victims: Family::default(),
            last_victims: Gauge::default(),
            evictions: Family::default(),
        }
    }
}

impl CycleMetrics {
    pub(super) fn register(&self, registry: &mut Register<'_>) {
        registry.add("volcano_e2e_scheduling_latency_milliseconds", &self.latency);
        registry.add("volcano_open_session_duration_milliseconds", &self.open);
        registry.add("volcano_action_scheduling_latency_milliseconds", &self.actions);
        registry.add("volcano_plugin_scheduling_latency_milliseconds", &self.plugins);
        registry.add("volcano_total_preemption_attempts", &self.preempt_searches);
        registry.add("volcano_pod_preemption_victims", &self.last_victims);
        registry.add("volcano_eviction_transactions_total", &self.evictions);
        registry.add("phalanx_cycles_total", &self.cycles);
        registry.add("phalanx_cycle_last_seconds", &self.last);
        registry.add("phalanx_decisions_total", &self.decisions);
        registry.add("phalanx_pending_jobs", &self.pending);
        registry.add("phalanx_backlog_activations_total", &self.activations);
        registry.add("phalanx_victim_searches_total", &self.searches);
        registry.add("phalanx_victims_total", &self.victims);
    }

    pub(super) fn ended(&self, took: Duration, steps: &[Step]) {
        self.cycles.inc();
        self.latency.observe(timing(took));
        self.last.set(took.as_secs_f64());
        let opened = steps.iter().position(|step| step.stage == Stage::SessionOpened);
        if let Some(opened) = opened {
            self.open.observe(timing(steps[..=opened].iter().map(|step| step.took).sum()));
        }
        for Step { stage, took, .. } in steps {
            self.observe(*stage, *took);
        }
    }

    fn observe(&self, stage: Stage, took: Duration) {
        let plugin = |plugin, stage| {
            let labels = PluginStage { plugin, OnSession: stage };
            self.plugins.get_or_create(&labels).observe(timing(took));
        };
        match stage {
            Stage::Action(action) => self.actions.get_or_create(&Action { action }).observe(timing(took)),
            Stage::PluginOpened(name) => plugin(name, "OnSessionOpen"),
            Stage::PluginClosed(name) => plugin(name, "OnSessionClose"),
            Stage::Begun | Stage::SessionOpened | Stage::Statuses => {}
        }
    }

    pub(super) fn decided(&self, decisions: &[Decision]) {
        let mut counts = std::collections::BTreeMap::<&'static str, u64>::new();
        for decision in decisions {
            let (kind, count) = kind(decision);
            *counts.entry(kind).or_default() += count;
        }
        for (kind, count) in counts {
            self.decisions.get_or_create(&Kind { kind }).inc_by(count);
        }
        let causes: Vec<&Arc<Cause>> = decisions.iter().filter_map(cause).collect();
        for commit in causes.chunk_by(|a, b| Arc::ptr_eq(a, b)) {
            self.evicted(commit[0], commit.len());
        }
    }

    fn evicted(&self, cause: &Cause, pods: usize) {
        let action = Action { action: cause.action };
        self.victims.get_or_create(&action).inc_by(pods as u64);
        if cause.by.is_some() {
            self.evictions.get_or_create(&action).inc();
            self.last_victims.set(pods as i64);
        }
    }

    pub(super) fn searched(&self, action: &'static str, times: u64) {
        self.searches.get_or_create(&Action { action }).inc_by(times);
        if action == "preempt" {
            self.preempt_searches.inc_by(times as i64);
        }
    }

    pub(super) fn activated(&self, why: Activation, jobs: u64) {
        let event = match why {
            Activation::Changed => "changed",
            Activation::Queue => "queue",
            Activation::Class => "class",
            Activation::Backoff => "backoff",
            Activation::Expired => "expired",
            Activation::Flush => "flush",
        };
        self.activations.get_or_create(&Event { event }).inc_by(jobs);
    }

    pub(super) fn pending(&self, pending: Pending) {
        let Pending { active, backoff, unschedulable } = pending;
        for (pool, count) in [("active", active), ("backoff", backoff), ("unschedulable", unschedulable)] {
            self.pending.get_or_create(&Pool { pool }).set(count as i64);
        }
    }
}

fn cause(decision: &Decision) -> Option<&Arc<Cause>> {
    match decision {
        Decision::Evict { cause, .. } => Some(cause),
        _ => None,
    }
}

/// The kind of a decision, and how many it counts as.
fn kind(decision: &Decision) -> (&'static str, u64) {
    match decision {
        Decision::Bind { pods, .. } => ("bind", pods.len() as u64),
        Decision::Evict { .. } => ("evict", 1),
        Decision::Nominate { .. } => ("nominate", 1),
        Decision::OpenGate { .. } => ("open_gate", 1),
        Decision::PodGroupStatus { .. } => ("podgroup_status", 1),
        Decision::QueueStatus { .. } => ("queue_status", 1),
        Decision::PodUnscheduled { .. } => ("pod_unscheduled", 1),
        Decision::PodUngrouped { .. } => ("pod_ungrouped", 1),
        Decision::PodGroupUnschedulable { .. } => ("podgroup_unschedulable", 1),
        Decision::PodGroupInvalid { .. } => ("podgroup_invalid", 1),
        Decision::HyperNodeInvalid { .. } => ("hypernode_invalid", 1),
        Decision::QueueInvalid { .. } => ("queue_invalid", 1),
    }
}
