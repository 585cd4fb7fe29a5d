//! `phalanx job run`: a Job from flags, or from a file.
use anyhow::Result;
use phalanx_api::batch::{API_VERSION, Job};
use serde_json::{Value, json};

use crate::exit::{BadInput, print};
use crate::flag;
use crate::remote::{Connection, amounts, manifest};

/// The label of pods that names the Job.
const JOB_NAME: &str = "job.volcano.sh";

/// Flags of `job run`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The image of the container
    #[arg(short, long, value_name = "IMAGE", default_value = "busybox")]
    image: String,
    /// The namespace of the Job; without it that of the file, then that of the context
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The name of the Job
    #[arg(short = 'N', long, value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
    /// Pods that must get a node before any of them starts
    #[arg(short, long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = flag::whole::<i32>(i32::MIN..=i32::MAX))]
    min: i32,
    /// The number of pods
    #[arg(short, long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = flag::whole::<i32>(i32::MIN..=i32::MAX))]
    replicas: i32,
    /// What the container of a pod requests
    #[arg(short = 'R', long, value_name = "RESOURCE=AMOUNT,...", default_value = "cpu=1000m,memory=100Mi")]
    requests: String,
    /// What the container of a pod may use
    #[arg(short = 'L', long, value_name = "RESOURCE=AMOUNT,...", default_value = "cpu=1000m,memory=100Mi")]
    limits: String,
    /// The scheduler of the pods
    #[arg(short = 'S', long, value_name = "NAME", default_value = "volcano")]
    scheduler: String,
    /// A YAML file with the Job, or - for standard input; of the other flags, --namespace counts beside it
    #[arg(short, long, value_name = "FILE", default_value = "", hide_default_value = true)]
    filename: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: &Args) -> Result<()> {
    let job = args.job()?;
    let remote = args.connection.open().await?;
    let own = job["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty());
    let namespace = remote.namespace(args.namespace.as_deref().or(own));
    let made = remote.objects.create::<Job>(Some(namespace), &job).await?;
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    print(&format!("run job {name} successfully\n"))
}

impl Args {
    /// The Job to be created.
    fn job(&self) -> Result<Value, BadInput> {
        if self.name.is_empty() && self.filename.is_empty() {
            return Err(BadInput("job name cannot be left blank".to_owned()));
        }
        let requests = amounts::parse("requests", &self.requests)?;
        let limits = amounts::parse("limits", &self.limits)?;
        if !self.filename.is_empty() {
            return of_file(&self.filename);
        }
        let resources = [("requests", requests), ("limits", limits)];
        let resources: Value =
            resources.into_iter().filter_map(|(name, some)| Some((name.to_owned(), json!(some?)))).collect();
        Ok(self.with_resources(&resources))
    }

    /// One task of one container, as vcctl makes it.
    fn with_resources(&self, resources: &Value) -> Value {
        let container = json!({
            "image": self.image,
            "name": self.name,
            "imagePullPolicy": "IfNotPresent",
            "resources": resources,
        });
        let template = json!({
            "metadata": {"name": self.name, "labels": {JOB_NAME: self.name}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        });
        json!({
            "apiVersion": API_VERSION,
            "kind": "Job",
            "metadata": {"name": self.name},
            "spec": {
                "minAvailable": self.min,
                "schedulerName": self.scheduler,
                "tasks": [{"replicas": self.replicas, "template": template}],
            },
        })
    }
}

/// The Job of a file; messages are vcctl's.
fn of_file(file: &str) -> Result<Value, BadInput> {
    if file != "-" && !file.contains(".yaml") && !file.contains(".yml") {
        return Err(BadInput("only support yaml file".to_owned()));
    }
    let text = manifest::text(file).map_err(|why| BadInput(format!("failed to read file, err: {why}")))?;
    let bad = |why: &str| BadInput(format!("failed to unmarshal file, err:  {why}"));
    let mut jobs = manifest::objects::<Job>(file, &text).map_err(|why| bad(&why))?;
    match (jobs.pop(), jobs.len()) {
        (Some(job), 0) => Ok(job),
        (_, others) => {
            Err(bad(&format!("{file}: found {} objects, expected one Job", others + usize::from(others > 0))))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn job(flags: &[&str]) -> Result<Value, String> {
        let words = ["run"].into_iter().chain(flags.iter().copied());
        Cli::try_parse_from(words).unwrap().args.job().map_err(|error| error.0)
    }

    #[test]
    fn flags_make_the_job_that_vcctl_makes() {
        let amounts = json!({"cpu": "1", "memory": "100Mi"});
        let expected = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "train"},
            "spec": {
                "minAvailable": 2,
                "schedulerName": "volcano",
                "tasks": [{"replicas": 3, "template": {
                    "metadata": {"name": "train", "labels": {"job.volcano.sh": "train"}},
                    "spec": {"restartPolicy": "Never", "containers": [{
                        "image": "busybox",
                        "name": "train",
                        "imagePullPolicy": "IfNotPresent",
                        "resources": {"requests": amounts, "limits": amounts},
                    }]},
                }}],
            },
        });
        assert_eq!(job(&["-N", "train", "-m", "2", "-r=3"]).unwrap(), expected);
    }

    #[test]
    fn other_flags_take_the_place_of_the_defaults() {
        let flags = ["--name=a", "-i", "nginx", "-S", "mine", "-R", "", "-L", "nvidia.com/gpu=2"];
        let job = job(&flags).unwrap();
        let container = &job["spec"]["tasks"][0]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "nginx");
        assert_eq!(container["resources"], json!({"limits": {"nvidia.com/gpu": "2"}}));
        assert_eq!(job["spec"]["schedulerName"], "mine");
    }

    #[test]
    fn what_makes_no_job_is_refused_in_vcctls_words() {
        for (flags, expected) in [
            (&[][..], "job name cannot be left blank"),
            (&["-N", "a", "-L", "cpu"], "invalid argument syntax cpu, expected <resource>=<value>"),
            (&["-f", "job.json"], "only support yaml file"),
            (
                &["-f", "/none/job.yaml"],
                "failed to read file, err: open /none/job.yaml: no such file or directory",
            ),
        ] {
            assert_eq!(job(flags).unwrap_err(), expected);
        }
    }
}
