//! Rows and columns of Queues, as vcctl prints them.
use anyhow::{Result, anyhow};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use phalanx_api::v1beta1::{Queue, QueueStatus, ResourceList};
use serde_json::Value;

use crate::remote::amounts;
use crate::remote::table::{Column, table};

/// A Queue, and how many of its PodGroups are in each phase. The Queue's own status has these counts from time to time;
/// these are as of now.
pub(super) struct Row {
    queue: Queue,
    groups: Counts,
}

/// PodGroups by phase; those without a phase are not counted, as in vcctl.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    inqueue: u32,
    pending: u32,
    running: u32,
    unknown: u32,
    completed: u32,
}

impl Counts {
    fn add(&mut self, phase: &str) {
        match phase {
            "Inqueue" => self.inqueue += 1,
            "Pending" => self.pending += 1,
            "Running" => self.running += 1,
            "Unknown" => self.unknown += 1,
            "Completed" => self.completed += 1,
            _ => {}
        }
    }
}

impl Row {
    /// Reads a Queue, and counts its PodGroups among all.
    pub(super) fn of(queue: &Value, groups: &[Value]) -> Result<Self> {
        let name = &queue["metadata"]["name"];
        let mut counts = Counts::default();
        let phases = groups.iter().filter(|group| group["spec"]["queue"] == *name);
        phases.for_each(|group| counts.add(group["status"]["phase"].as_str().unwrap_or_default()));
        let queue = serde_json::from_value(queue.clone())
            .map_err(|error| anyhow!("Queue {name} cannot be read: {error}"))?;
        Ok(Self { queue, groups: counts })
    }
}

/// The table; more columns if it is wide.
pub(super) fn shown(rows: &[Row], wide: bool) -> String {
    let more = wide.then(more).into_iter().flatten();
    table(&vcctls(wide).into_iter().chain(more).collect::<Vec<_>>(), rows)
}

fn vcctls(wide: bool) -> [Column<Row>; 9] {
    // vcctl's last column is narrower than its title.
    let last = if wide { 12 } else { 8 };
    [
        Column::fixed("Name", 25, |row: &Row| row.queue.metadata.name.clone().unwrap_or_default()),
        Column::fixed("Weight", 8, |row: &Row| row.queue.spec.weight.to_string()),
        Column::fixed("State", 8, |row: &Row| state(&row.queue)),
        Column::fixed("Parent", 8, |row: &Row| row.queue.spec.parent.clone().unwrap_or_default()),
        count("Inqueue", 8, |groups| groups.inqueue),
        count("Pending", 8, |groups| groups.pending),
        count("Running", 8, |groups| groups.running),
        count("Unknown", 8, |groups| groups.unknown),
        count("Completed", last, |groups| groups.completed),
    ]
}

/// The columns of `--output wide`.
fn more() -> [Column<Row>; 5] {
    let status =
        |queue: &Queue, of: fn(QueueStatus) -> ResourceList| queue.status.clone().map(of).unwrap_or_default();
    [
        Column::fixed("Reclaimable", 14, |row: &Row| row.queue.is_reclaimable().to_string()),
        resources("Allocated", move |queue| status(queue, |status| status.allocated)),
        resources("Deserved", |queue| queue.spec.deserved.clone()),
        resources("Capability", |queue| queue.spec.capability.clone()),
        resources("Guarantee", |queue| queue.spec.guarantee.resource.clone()),
    ]
}

fn count(title: &'static str, width: usize, of: fn(&Counts) -> u32) -> Column<Row> {
    Column::fixed(title, width, move |row: &Row| of(&row.groups).to_string())
}

fn resources(title: &'static str, of: impl Fn(&Queue) -> ResourceList + 'static) -> Column<Row> {
    let text = |(name, amount): (String, Quantity)| (name, amount.0);
    Column::longest(title, 3, move |row: &Row| amounts::shown(of(&row.queue).into_iter().map(text)))
}

fn state(queue: &Queue) -> String {
    let state = queue.status.as_ref().and_then(|status| status.state.as_ref());
    state.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(name: &str, spec: &Value, state: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": spec, "status": {"state": state}})
    }

    fn groups(queue: &str, phase: &str, count: usize) -> Vec<Value> {
        vec![json!({"spec": {"queue": queue}, "status": {"phase": phase}}); count]
    }

    fn list(queues: &[Value], groups: &[Value], wide: bool) -> String {
        let rows: Result<Vec<Row>> = queues.iter().map(|queue| Row::of(queue, groups)).collect();
        shown(&rows.unwrap(), wide)
    }

    const TITLES: &str =
        "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed";

    /// The table of vcctl's own test. Its titles end without a blank behind `Completed`, which is longer than its
    /// column.
    #[test]
    fn a_list_has_vcctls_columns() {
        let phases = ["Inqueue", "Pending", "Running", "Unknown", "Completed"];
        let all = phases.iter().enumerate().flat_map(|(at, phase)| groups("test-queue", phase, at + 1));
        let queue = queue("test-queue", &json!({"weight": 1, "parent": "root"}), "Open");
        assert_eq!(
            list(&[queue], &all.collect::<Vec<_>>(), false),
            format!(
                "{TITLES}\ntest-queue               1       Open    root    1       2       3       4       5       \n"
            )
        );
    }

    #[test]
    fn pod_groups_of_other_queues_and_without_a_phase_are_not_counted() {
        let all = [groups("gone", "Running", 2), groups("a", "", 1), groups("a", "Running", 1)].concat();
        assert_eq!(
            list(&[queue("a", &json!({"weight": 2}), "")], &all, false),
            format!(
                "{TITLES}\na                        2                       0       0       1       0       0       \n"
            )
        );
    }

    #[test]
    fn a_long_name_does_not_run_into_the_next_column() {
        let page = list(&[queue("a", &json!({"parent": "research-team"}), "Open")], &[], false);
        assert!(page.contains("Open    research-team 0       "), "{page}");
    }

    #[test]
    fn wide_lists_show_amounts() {
        let spec = json!({"capability": {"cpu": "4", "memory": "1Gi"}, "reclaimable": false});
        let line = list(&[queue("a", &spec, "Open")], &[], true).lines().nth(1).unwrap().to_owned();
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[cells.len() - 5..], ["false", "<none>", "<none>", "cpu=4,memory=1Gi", "<none>"]);
    }
}
