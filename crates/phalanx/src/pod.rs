//! `phalanx pod list`: pods of Jobs and of queues, with vcctl's flags and columns.
mod line;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use phalanx_api::names;
use phalanx_runtime::objects::Wanted;
use serde_json::Value;

use crate::exit::print;
use crate::remote::output::Data;
use crate::remote::table::table;
use crate::remote::times::Millis;
use crate::remote::{self, Connection, Namespaces};

/// Commands of `pod`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the pods of Jobs, or of a queue
    List(Args),
}

/// Flags of `pod list`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    namespaces: Namespaces,
    /// Pods of this queue only, also those of no Job
    #[arg(short, long, value_name = "QUEUE", default_value = "", hide_default_value = true)]
    queue: String,
    /// Pods of this Job only
    #[arg(short, long, value_name = "NAME", default_value = "", hide_default_value = true)]
    job: String,
    /// The objects themselves
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Data>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    let Command::List(args) = command;
    remote::run("pod list", list(args))
}

async fn list(args: &Args) -> Result<()> {
    let remote = args.connection.open().await?;
    let namespace = args.namespaces.of(&remote);
    let labels = args.labels();
    let wanted = labels.as_deref().map_or(Wanted::All, Wanted::Labels);
    let found = remote.objects.list::<Pod>(namespace, wanted).await?;
    print(&args.shown(found, Millis::now())?)
}

impl Args {
    /// The labels that all pods asked for have. Pods of a queue have a label or an annotation.
    fn labels(&self) -> Option<String> {
        match (&*self.job, &*self.queue) {
            ("", "") => Some(names::JOB_NAME.to_owned()),
            ("", _) => None,
            (job, _) => Some(format!("{}={job}", names::JOB_NAME)),
        }
    }

    fn shown(&self, found: Vec<Value>, now: Millis) -> Result<String> {
        let mut pods = found.into_iter().map(serde_json::from_value).collect::<Result<Vec<Pod>, _>>()?;
        if !self.queue.is_empty() && self.job.is_empty() {
            pods.retain(|pod| self.is_queues(pod));
        }
        let of_other = |pod: &Pod| label(pod, names::JOB_QUEUE_NAME).is_some_and(|queue| queue != self.queue);
        ensure!(
            self.queue.is_empty() || !pods.iter().any(of_other),
            "the input vcjob {} does not match the queue {}",
            self.job,
            self.queue
        );
        pods.sort_by(|a, b| key(a).cmp(&key(b)));
        if let Some(data) = self.output {
            return data.list(pods.iter().map(serde_json::to_value).collect::<Result<_, _>>()?);
        }
        if pods.is_empty() {
            return Ok("No resources found\n".to_owned());
        }
        let lines: Vec<_> = pods.iter().map(|pod| line::of(pod, now)).collect();
        Ok(table(&line::columns(self.namespaces.all_namespaces), &lines))
    }

    fn is_queues(&self, pod: &Pod) -> bool {
        let annotations = pod.metadata.annotations.as_ref();
        let annotation = annotations.and_then(|all| all.get(names::QUEUE_NAME_ANNOTATION));
        [label(pod, names::JOB_QUEUE_NAME), annotation.map(String::as_str)].contains(&Some(&self.queue))
    }
}

fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn key(pod: &Pod) -> (Option<&str>, Option<&str>) {
    (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref())
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

    fn args(flags: &[&str]) -> Args {
        let words = ["list"].into_iter().chain(flags.iter().copied());
        Cli::try_parse_from(words).unwrap().args
    }

    fn pod(namespace: &str, name: &str, labels: &Value, annotations: &Value) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": name, "labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "my-container", "image": "nginx"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn names(flags: &[&str], pods: &[Value]) -> Vec<String> {
        let page = args(flags).shown(pods.to_vec(), Millis(0)).unwrap();
        page.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    }

    #[test]
    fn pods_are_printed_as_objects_too() {
        let pod = json!({"metadata": {"name": "a", "labels": {"volcano.sh/job-name": "j"}}});
        let text = args(&["-o", "json"]).shown(vec![pod], Millis(0)).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("List"), &json!("Pod")));
    }

    #[test]
    fn pods_of_a_queue_are_those_of_its_jobs_and_others_that_name_it() {
        let label = json!({"volcano.sh/queue-name": "q"});
        let pods = [
            pod("b", "by-label", &label, &json!({})),
            pod("a", "by-annotation", &json!({}), &json!({"scheduling.volcano.sh/queue-name": "q"})),
            pod("a", "other", &json!({"volcano.sh/queue-name": "p"}), &json!({})),
        ];
        assert_eq!(names(&["-q", "q"], &pods), ["by-annotation", "by-label"], "by namespace, then by name");
        assert_eq!(args(&["-q", "p"]).labels(), None);
        assert_eq!(args(&[]).labels().as_deref(), Some("volcano.sh/job-name"));
        assert_eq!(args(&["-j", "a"]).labels().as_deref(), Some("volcano.sh/job-name=a"));
        let refused = args(&["-j", "a", "-q", "p"]).shown(pods[..1].to_vec(), Millis(0));
        assert_eq!(refused.unwrap_err().to_string(), "the input vcjob a does not match the queue p");
        assert_eq!(args(&[]).shown(Vec::new(), Millis(0)).unwrap(), "No resources found\n");
    }

    /// The table of vcctl's own test, with the blanks at the ends of lines that it trims.
    #[test]
    fn a_list_has_vcctls_columns() {
        let mut mine = pod("default", "my-pod", &json!({}), &json!({}));
        mine["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
        let now = Millis(3 * 24 * 3600 * 1000);
        let narrow = "Name          Ready      Status         Restart  Age       \n\
            my-pod        0/1        Running        0        3d        \n";
        assert_eq!(args(&[]).shown(vec![mine.clone()], now).unwrap(), narrow);
        let all = args(&["--all-namespaces"]).shown(vec![mine], now).unwrap();
        assert!(all.starts_with("Namespace      Name          Ready"), "{all}");
    }
}
