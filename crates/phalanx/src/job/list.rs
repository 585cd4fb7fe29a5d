//! `phalanx job list`.
use anyhow::Result;
use phalanx_api::batch::{Job, JobStatus};
use phalanx_api::names;
use phalanx_runtime::objects;
use serde_json::Value;

use super::read;
use crate::exit::print;
use crate::remote::output::Format;
use crate::remote::table::{Column, table};
use crate::remote::times::{Millis, day, since};
use crate::remote::{Connection, Namespaces};

/// Flags of `job list`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    wanted: Wanted,
    /// More columns, or the objects themselves
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    connection: Connection,
}

/// Which Jobs are listed.
#[derive(Debug, clap::Args)]
struct Wanted {
    /// Jobs of this queue only
    #[arg(short, long, value_name = "QUEUE", default_value = "", hide_default_value = true)]
    queue: String,
    /// Jobs with this spec.schedulerName only
    #[arg(short = 'S', long, value_name = "NAME", default_value = "", hide_default_value = true)]
    scheduler: String,
    /// Jobs with this text in their name only
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    selector: String,
}

impl Wanted {
    fn has(&self, job: &Job) -> bool {
        let all_or = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let name = job.metadata.name.as_deref().unwrap_or_default();
        all_or(&self.queue, &job.spec.queue)
            && all_or(&self.scheduler, &job.spec.scheduler_name)
            && name.contains(&self.selector)
    }
}

pub(super) async fn run(args: &Args) -> Result<()> {
    let remote = args.connection.open().await?;
    let namespace = args.namespaces.of(&remote);
    let found = remote.objects.list::<Job>(namespace, objects::Wanted::All).await?;
    print(&args.shown(found, Millis::now())?)
}

impl Args {
    fn shown(&self, found: Vec<Value>, now: Millis) -> Result<String> {
        let mut jobs = Vec::new();
        let mut objects = Vec::new();
        for object in found {
            let job = read(&object)?;
            if self.wanted.has(&job) {
                jobs.push(Row { job, now });
                objects.push(object);
            }
        }
        Ok(match self.output.and_then(Format::data) {
            Some(data) => data.list(objects)?,
            None if jobs.is_empty() => "No resources found\n".to_owned(),
            None => table(&columns(self.namespaces.all_namespaces, self.output == Some(Format::Wide)), &jobs),
        })
    }
}

/// A Job, and the time from which its age is told.
struct Row {
    job: Job,
    now: Millis,
}

fn columns(with_namespace: bool, wide: bool) -> Vec<Column<Row>> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let namespace = Column::longest("Namespace", 3, move |row: &Row| text(&row.job.metadata.namespace));
    let name = Column::longest("Name", 3, move |row: &Row| text(&row.job.metadata.name));
    let first = with_namespace.then_some(namespace).into_iter().chain([name]).chain(vcctls());
    if wide { first.chain(more()).collect() } else { first.collect() }
}

fn vcctls() -> [Column<Row>; 11] {
    [
        Column::fixed("Creation", 15, |row: &Row| day(row.job.metadata.creation_timestamp.as_ref())),
        Column::fixed("Phase", 12, |row: &Row| phase(&row.job).to_owned()),
        Column::fixed("JobType", 12, |row: &Row| job_type(&row.job)),
        Column::fixed("Replicas", 12, |row: &Row| {
            row.job.spec.tasks.iter().map(|task| i64::from(task.replicas)).sum::<i64>().to_string()
        }),
        count("Min", 6, |status| status.min_available),
        count("Pending", 10, |status| status.pending),
        count("Running", 10, |status| status.running),
        count("Succeeded", 12, |status| status.succeeded),
        count("Failed", 10, |status| status.failed),
        count("Unknown", 12, |status| status.unknown),
        count("RetryCount", 10, |status| status.retry_count),
    ]
}

/// The columns of `--output wide`.
fn more() -> [Column<Row>; 5] {
    [
        count("Terminating", 14, |status| status.terminating),
        count("Version", 10, |status| status.version),
        Column::longest("Queue", 3, |row: &Row| row.job.spec.queue.clone()),
        Column::longest("Scheduler", 3, |row: &Row| row.job.spec.scheduler_name.clone()),
        Column::fixed("Age", 10, |row: &Row| since(row.job.metadata.creation_timestamp.as_ref(), row.now)),
    ]
}

fn count(title: &'static str, width: usize, of: impl Fn(&JobStatus) -> i32 + 'static) -> Column<Row> {
    Column::fixed(title, width, move |row: &Row| {
        row.job.status.as_ref().map(&of).unwrap_or_default().to_string()
    })
}

fn phase(job: &Job) -> &str {
    let phase = job.status.as_ref().and_then(|status| status.state.phase.as_ref());
    phase.map_or("", |phase| phase.as_str())
}

fn job_type(job: &Job) -> String {
    let labels = job.metadata.labels.as_ref();
    let found = labels.and_then(|labels| labels.get(names::JOB_TYPE)).filter(|found| !found.is_empty());
    found.cloned().unwrap_or_else(|| "Batch".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn shown(flags: &[&str], jobs: &[Value]) -> String {
        let words = ["list"].into_iter().chain(flags.iter().copied());
        Cli::try_parse_from(words).unwrap().args.shown(jobs.to_vec(), Millis(0)).unwrap()
    }

    fn job(namespace: &str, name: &str, queue: &str, scheduler: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": null},
            "spec": {"queue": queue, "schedulerName": scheduler},
            "status": {"state": {"lastTransitionTime": null}},
        })
    }

    const TITLES: &str = "Creation       Phase       JobType     Replicas    Min   Pending   Running   Succeeded   Failed    Unknown     RetryCount";
    const ZEROS: &str = "0001-01-01                 Batch       0           0     0         0         0           0         0           0         ";

    /// The table of vcctl's own test, with the blanks at the ends of lines that it trims.
    #[test]
    fn a_list_has_vcctls_columns() {
        let one = job("default", "test-job", "default", "test-scheduler");
        let other = job("default", "test-queue", "test-queue", "volcano");
        let far = job("kube-sysyem", "test-job", "default", "test-scheduler");
        let both = [one.clone(), other.clone()];
        let narrow = format!("Name       {TITLES}\ntest-job   {ZEROS}\n");
        let queue = format!("Name         {TITLES}\ntest-queue   {ZEROS}\n");
        let two = format!("Name         {TITLES}\ntest-job     {ZEROS}\ntest-queue   {ZEROS}\n");
        let all = format!(
            "Namespace     Name         {TITLES}\nkube-sysyem   test-job     {ZEROS}\ndefault       test-queue   {ZEROS}\n"
        );
        assert_eq!(shown(&[], &[one]), narrow);
        assert_eq!(shown(&["-q", "test-queue"], &both), queue);
        assert_eq!(shown(&["-n", "default"], &both), two);
        assert_eq!(shown(&["--all-namespaces"], &[far, other]), all);
        assert_eq!(shown(&["-S", "volcano"], &both), queue);
        assert_eq!(shown(&["--selector", "test-job"], &both), narrow);
        assert_eq!(shown(&["--selector", "none"], &both), "No resources found\n");
    }

    #[test]
    fn a_running_job_shows_its_counts() {
        let job = json!({
            "metadata": {
                "name": "a", "creationTimestamp": "2026-01-31T08:00:00Z", "labels": {"volcano.sh/job-type": "MPI"},
            },
            "spec": {"tasks": [{"replicas": 2}, {"replicas": 10}], "schedulerName": "volcano"},
            "status": {
                "state": {"phase": "Running"}, "minAvailable": 12, "pending": 1, "running": 11, "succeeded": 2,
                "failed": 3, "unknown": 4, "retryCount": 5, "terminating": 6, "version": 7,
            },
        });
        let line = shown(&["-o", "wide"], &[job]).lines().nth(1).unwrap().to_owned();
        let cells: Vec<&str> = line.split_whitespace().collect();
        let expected = ["a", "2026-01-31", "Running", "MPI", "12", "12", "1", "11", "2", "3", "4", "5"];
        assert_eq!(cells[..12], expected);
        assert_eq!(cells[12..16], ["6", "7", "default", "volcano"]);
    }

    #[test]
    fn as_json_a_list_holds_the_objects_that_are_wanted() {
        let jobs = [job("default", "a", "q1", ""), job("default", "b", "q2", "")];
        let list: Value = serde_json::from_str(&shown(&["-q", "q2", "-o", "json"], &jobs)).unwrap();
        assert_eq!(list["items"], json!([jobs[1]]));
        let none: Value = serde_json::from_str(&shown(&["-q", "q3", "-o", "json"], &jobs)).unwrap();
        assert_eq!(none["items"], json!([]));
    }
}
