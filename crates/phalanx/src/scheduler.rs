//! `phalanx scheduler`: vc-scheduler's flags, and what they mean here.
pub(crate) mod ignored;
pub(crate) mod logging;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::builder::ValueParser;
use phalanx_cache::is_name;
use phalanx_cluster::GroupWait;
use phalanx_runtime::client::BadFlag;
use phalanx_runtime::journal::JournalOptions;
use phalanx_runtime::lease::{self, LeaseOptions};
use phalanx_runtime::reload::ConfError;
use phalanx_runtime::scheduler::{
    BackoffTimes, Grouped, SchedulerOptions, drawn_seed, hostname, run as schedule,
};
use phalanx_runtime::server::{Addresses, ApiAddress};

use crate::controllers::Shared;
use crate::exit::{BadInput, all_of};
use crate::flag;
use crate::sampling::Sampled;
use ignored::{Ignored, OfScheduler};

/// Flags of `scheduler`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Pods with one of these schedulerNames are scheduled
    #[arg(long, default_value = "volcano", value_delimiter = ',', value_name = "NAME", value_parser = flag::scheduler_name())]
    scheduler_name: Vec<String>,
    /// scheduler.conf; read again when it changes. Without it, the built-in default
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    scheduler_conf: String,
    /// Refuse a scheduler.conf with warnings, or with what is not supported, as one with errors
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    scheduler_conf_strict: bool,
    /// The longest a change waits for its cycle, and how long counts and messages must be still before they are written
    #[arg(long, default_value = "1s", allow_hyphen_values = true, value_parser = period(), value_name = "DURATION")]
    schedule_period: Duration,
    /// How long a cycle waits after a change, so that changes that come together are decided together; an eighth of it
    /// where none came before
    #[arg(long, default_value = "10ms", allow_hyphen_values = true, value_parser = duration(), value_name = "DURATION")]
    coalesce_window: Duration,
    /// The queue of pods and PodGroups that name none
    #[arg(long, default_value = "default", value_name = "QUEUE", value_parser = flag::name())]
    default_queue: String,
    #[command(flatten)]
    client: Connection,
    /// Requests in flight to the API server
    #[arg(long, default_value_t = 128, value_name = "N", allow_negative_numbers = true, value_parser = flag::whole::<u16>(1..=1024))]
    binds_in_flight: u16,
    /// Run the controllers in this process too, as `phalanx controllers` does, with a lease of their own
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    controllers: bool,
    /// Send a Scheduled event for each pod that is bound, once nothing else waits
    #[arg(long, default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    scheduled_events: bool,
    /// Where metrics are served
    #[arg(long, default_value = ":8080", value_name = "ADDRESS")]
    listen_address: String,
    #[command(flatten)]
    pages: ServedPages,
    #[command(flatten)]
    slow: Slow,
    /// Where `phalanx explain` and `phalanx top` ask; whoever asks needs a token that may list PodGroups. Empty for
    /// nowhere. Unless it is given, 127.0.0.1:8082, if that is free
    #[arg(long, value_name = "ADDRESS")]
    api_address: Option<String>,
    /// Serve /debug/pprof/profile at --api-address: processor time by function, as `go tool pprof` reads it. Whoever
    /// asks needs a token that may get this path
    #[arg(long, alias = "enable-pprof", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    profiling: bool,
    /// Read PriorityClasses
    #[arg(long, default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    priority_class: bool,
    /// Schedule only to nodes with one of these labels
    #[arg(long, value_delimiter = ',', value_name = "KEY:VALUE")]
    node_selector: Vec<String>,
    /// Chooses among nodes of equal score, the same in each process; unless it is given, each process draws one at its
    /// start and logs it
    #[arg(long, value_name = "SEED", allow_negative_numbers = true, value_parser = flag::whole::<u64>(0..=u64::MAX))]
    seed: Option<u64>,
    #[command(flatten)]
    backoff: BackedOff,
    #[command(flatten)]
    sampling: Sampled,
    #[command(flatten)]
    grouping: Grouping,
    #[command(flatten)]
    journal: Journaling,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    elect: Elect,
    #[command(flatten)]
    logging: logging::Logging,
    #[command(flatten)]
    ignored: Ignored<OfScheduler>,
}

/// How long jobs back off that were refused again.
#[derive(Debug, clap::Args)]
struct BackedOff {
    /// The first back-off of a job whose search or bind failed; it doubles with each failure
    #[arg(long, default_value_t = 1, value_name = "SECONDS", allow_negative_numbers = true, value_parser = flag::whole::<u32>(1..=3600))]
    pod_initial_backoff_seconds: u32,
    /// The longest back-off
    #[arg(long, default_value_t = 10, value_name = "SECONDS", allow_negative_numbers = true, value_parser = flag::whole::<u32>(1..=3600))]
    pod_max_backoff_seconds: u32,
}

/// Which pages are served, and where health checks are.
#[derive(Debug, clap::Args)]
pub(crate) struct ServedPages {
    /// Where health checks are served
    #[arg(long, default_value = ":11251", value_name = "ADDRESS")]
    healthz_address: String,
    /// Serve /metrics
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    enable_metrics: bool,
    /// Serve /healthz and /readyz
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    enable_healthz: bool,
}

impl ServedPages {
    pub(crate) fn addresses(self, listen_address: String) -> Addresses {
        Addresses {
            metrics: self.enable_metrics.then_some(listen_address),
            healthz: self.enable_healthz.then_some(self.healthz_address),
            api: None,
        }
    }
}

/// What is told of slow cycles.
#[derive(Debug, clap::Args)]
struct Slow {
    /// Log a cycle that takes this long, with its longest stages
    #[arg(long, default_value = "1s", allow_hyphen_values = true, value_parser = duration(), value_name = "DURATION")]
    slow_cycle: Duration,
    /// Send an OpenTelemetry trace of each such cycle to this collector: OTLP over HTTP with JSON, such as
    /// http://otel-collector:4318
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL", value_parser = endpoint())]
    otlp_endpoint: String,
}

/// How the API server is reached, and how much is asked of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// A kubeconfig; without it KUBECONFIG, the home directory, or the pod's service account
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub(crate) kubeconfig: String,
    /// The address of the API server, in place of the kubeconfig's
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    pub(crate) master: String,
    /// Requests a second to the API server; no limit unless it is given
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = flag::above_zero())]
    kube_api_qps: Option<f64>,
    /// Requests that may go beyond --kube-api-qps for a moment; as many as that unless it is given
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = flag::whole::<u32>(1..=u32::MAX))]
    kube_api_burst: Option<u32>,
    /// Send all writes over one HTTP/2 connection where the API server offers it, instead of a pool of HTTP/1.1
    /// connections
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    pub(crate) http2: bool,
}

/// Beside a controller that makes PodGroups for pods without one.
#[derive(Debug, clap::Args)]
struct Grouping {
    /// Pods without a PodGroup wait until a PodGroup controller has put them into one. Without this flag, with
    /// --controllers, or from when a PodGroup that it made or the lease vc-controller-manager is seen
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    wait_for_podgroup: bool,
    /// How long after its creation a pod without a PodGroup waits for a PodGroup controller at most, before it is
    /// scheduled by itself; with 0s it does not wait. Unless it is given, 30s, or without limit with --controllers
    #[arg(long, allow_hyphen_values = true, value_parser = duration(), value_name = "DURATION")]
    wait_for_podgroup_timeout: Option<Duration>,
}

impl Grouping {
    fn wait(&self, controllers: bool) -> Result<GroupWait> {
        let usual = if controllers { Duration::MAX } else { Duration::from_secs(30) };
        let limit = self.wait_for_podgroup_timeout.unwrap_or(usual);
        let millis = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        ensure!(
            millis > 0 || !self.wait_for_podgroup,
            BadInput("--wait-for-podgroup-timeout must be more than 0 beside --wait-for-podgroup".to_owned())
        );
        Ok(match self.wait_for_podgroup || controllers {
            _ if millis == 0 => GroupWait::Never,
            true => GroupWait::Always(millis),
            false => GroupWait::IfSeen(millis),
        })
    }
}

/// Decisions, and what they were made from, in a file. Names as those of kube-apiserver's audit log.
#[derive(Debug, clap::Args)]
struct Journaling {
    /// Write all decisions to this file, a line of JSON for each cycle, for `phalanx explain --journal`
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    journal_path: String,
    /// The size in megabytes at which the journal goes on in a new file
    #[arg(long, default_value_t = 100, value_name = "MEGABYTES", allow_negative_numbers = true, value_parser = flag::whole::<u32>(1..=1_000_000))]
    journal_maxsize: u32,
    /// How many full files of the journal are kept besides: FILE.1 is the newest of them
    #[arg(long, default_value_t = 10, value_name = "N", allow_negative_numbers = true, value_parser = flag::whole::<u16>(0..=1000))]
    journal_maxbackup: u16,
    /// Write to the journal all that cycles read too, for `phalanx replay`. scheduler.conf, with passwords in it, is a
    /// part of that
    #[arg(long, default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    journal_inputs: bool,
}

impl Journaling {
    fn options(self) -> Result<Option<JournalOptions>> {
        let Some(path) = given(self.journal_path) else {
            ensure!(
                !self.journal_inputs,
                BadInput("--journal-inputs: expected --journal-path beside it".into())
            );
            return Ok(None);
        };
        Ok(Some(JournalOptions {
            path: path.into(),
            max_bytes: u64::from(self.journal_maxsize) * 1_000_000,
            max_backups: usize::from(self.journal_maxbackup),
            inputs: self.journal_inputs,
        }))
    }
}

/// Leader election.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Elect {
    /// Work only while holding the lease, so that several replicas may run
    #[arg(long, default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    leader_elect: bool,
    /// How long others wait after the leader's last renewal
    #[arg(long, default_value = "15s", allow_hyphen_values = true, value_parser = duration(), value_name = "DURATION")]
    leader_elect_lease_duration: Duration,
    /// How long the leader tries to renew before it gives up
    #[arg(long, default_value = "10s", allow_hyphen_values = true, value_parser = duration(), value_name = "DURATION")]
    leader_elect_renew_deadline: Duration,
    /// How often the lease is looked at
    #[arg(long, default_value = "2s", allow_hyphen_values = true, value_parser = duration(), value_name = "DURATION")]
    leader_elect_retry_period: Duration,
    /// The lease; unless it is given, the scheduler's name, or vc-controller-manager for the controllers
    #[arg(long, value_name = "NAME", value_parser = flag::name())]
    leader_elect_resource_name: Option<String>,
    /// The lease's namespace, and that of the controllers' ConfigMap
    #[arg(long, alias = "lock-object-namespace", default_value = "volcano-system", value_name = "NAMESPACE", value_parser = flag::namespace())]
    leader_elect_resource_namespace: String,
}

pub(crate) fn run(args: Args) -> Result<()> {
    args.logging.init()?;
    for warning in args.ignored.warnings().chain(args.sampling.warning()) {
        tracing::warn!("{warning}");
    }
    schedule(args.options()?).map_err(|error| match error.downcast::<ConfError>() {
        Ok(problems) => all_of(&problems.to_string().lines().collect::<Vec<_>>()).into(),
        Err(error) => error.downcast::<BadFlag>().map_or_else(|error| error, |bad| BadInput(bad.0).into()),
    })
}

impl Connection {
    pub(crate) fn rate(&self) -> Option<(f64, u32)> {
        let qps = self.kube_api_qps?;
        Some((qps, self.kube_api_burst.unwrap_or(qps.ceil() as u32)))
    }
}

impl BackedOff {
    fn times(&self) -> Result<BackoffTimes> {
        let Self { pod_initial_backoff_seconds: initial, pod_max_backoff_seconds: max } = *self;
        if initial > max {
            let fault = format!(
                "--pod-initial-backoff-seconds: found {initial}, expected at most --pod-max-backoff-seconds, {max}"
            );
            return Err(BadInput(fault).into());
        }
        Ok(BackoffTimes { initial_ms: i64::from(initial) * 1000, max_ms: i64::from(max) * 1000 })
    }
}

impl Args {
    fn options(self) -> Result<SchedulerOptions> {
        let rate = self.client.rate();
        let wait = self.grouping.wait(self.controllers)?;
        let lease_namespace = self.elect.leader_elect_resource_namespace.clone();
        // The lease of the controllers has Volcano's name, whatever that of the scheduler is.
        let elect = Elect { leader_elect_resource_name: None, ..self.elect.clone() };
        let controllers = self.controllers.then(|| self.shared.options(&self.scheduler_name, &elect, rate));
        let lease = self.elect.lease(|| lease_name(&self.scheduler_name))?;
        Ok(SchedulerOptions {
            scheduler_names: self.scheduler_name,
            conf: given(self.scheduler_conf).map(PathBuf::from),
            conf_strict: self.scheduler_conf_strict,
            schedule_period: self.schedule_period,
            coalesce_window: self.coalesce_window,
            default_queue: self.default_queue,
            grouping: Grouped { wait, lease_namespace },
            kubeconfig: given(self.client.kubeconfig).map(PathBuf::from),
            master: given(self.client.master),
            rate,
            profiling: self.profiling,
            addresses: Addresses { api: api(self.api_address), ..self.pages.addresses(self.listen_address) },
            priority_class: self.priority_class,
            node_selector: self.node_selector,
            http2: self.client.http2,
            in_flight: usize::from(self.binds_in_flight),
            scheduled_events: self.scheduled_events,
            lease,
            controllers: controllers.transpose()?,
            slow_cycle: self.slow.slow_cycle,
            otlp_endpoint: given(self.slow.otlp_endpoint),
            seed: self.seed.unwrap_or_else(drawn_seed),
            backoff: self.backoff.times()?,
            sampling: self.sampling.sampling(),
            journal: self.journal.options()?,
        })
    }
}

/// Where the API is served when no flag says so.
const API_ADDRESS: &str = "127.0.0.1:8082";

fn api(given: Option<String>) -> Option<ApiAddress> {
    match given {
        None => Some(ApiAddress::Usual(API_ADDRESS)),
        Some(address) => (!address.is_empty()).then_some(ApiAddress::Given(address)),
    }
}

/// The renewal deadline leaves room for a retry that comes late by so much: client-go asks for the same.
const JITTER: f64 = 1.2;

impl Elect {
    /// Where the lease is, and the ConfigMap of the controllers.
    pub(crate) fn namespace(&self) -> &str {
        &self.leader_elect_resource_namespace
    }

    /// The lease, under a default name where the flag names none.
    pub(crate) fn lease(
        &self,
        default_name: impl FnOnce() -> Result<String>,
    ) -> Result<Option<LeaseOptions>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let (duration, deadline) = (self.leader_elect_lease_duration, self.leader_elect_renew_deadline);
        let retry = self.leader_elect_retry_period;
        let ordered = duration > deadline && deadline > retry.mul_f64(JITTER) && !retry.is_zero();
        ensure!(
            ordered,
            BadInput(format!(
                "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, that longer than {JITTER} times --leader-elect-retry-period, and that more than 0"
            ))
        );
        let name = self.leader_elect_resource_name.clone().map_or_else(default_name, Ok)?;
        Ok(Some(LeaseOptions {
            namespace: self.leader_elect_resource_namespace.clone(),
            name,
            identity: lease::identity(&hostname()),
            duration,
            renew_deadline: deadline,
            retry_period: retry,
        }))
    }
}

/// The name is Volcano's, so that both never schedule the same pods at once.
fn lease_name(scheduler_names: &[String]) -> Result<String> {
    match scheduler_names {
        [name] if is_name(name) => Ok(name.clone()),
        [name] => bail!(BadInput(format!(
            "--scheduler-name {name:?}: found no name of a Lease, expected --leader-elect-resource-name beside it"
        ))),
        _ => Ok("volcano".to_owned()),
    }
}

/// An empty flag is one that was not given, as in Go.
pub(crate) fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// The address of a collector, or nothing.
fn endpoint() -> ValueParser {
    let parse = |text: &str| {
        let known = text.is_empty() || text.starts_with("http://") || text.starts_with("https://");
        known.then(|| text.to_owned()).ok_or("expected a URL such as http://127.0.0.1:4318")
    };
    ValueParser::new(parse)
}

/// A duration as Go writes it.
fn duration() -> ValueParser {
    let parse = |text: &str| parse_duration(text).ok_or("expected a duration such as 500ms, 1s or 1m30s");
    ValueParser::new(parse)
}

/// The same, and not 0.
fn period() -> ValueParser {
    let parse = |text: &str| {
        let some = parse_duration(text).filter(|period| !period.is_zero());
        some.ok_or("expected a duration above 0 such as 500ms, 1s or 1m30s")
    };
    ValueParser::new(parse)
}

fn parse_duration(text: &str) -> Option<Duration> {
    let millis = phalanx_cluster::duration::parse_duration(text)?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use phalanx_framework::placement::Sampling;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        let words = ["scheduler"].into_iter().chain(flags.iter().copied());
        Cli::try_parse_from(words).map(|cli| cli.args)
    }

    /// The arguments of Volcano's chart, and all others its binary has.
    #[test]
    fn a_command_line_made_for_volcano_is_accepted() {
        let chart = [
            "--logtostderr",
            "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf",
            "--enable-healthz=true",
            "--enable-metrics=true",
            "--leader-elect=false",
            "--kube-api-qps=2000",
            "--kube-api-burst=2000",
            "--schedule-period=1s",
            "--node-worker-threads=20",
            "--ignored-provisioners=a,b",
            "--log_dir=/tmp",
            "--cache-dumper",
            "-v=3",
        ];
        let args = parse(&chart).unwrap();
        let warnings: Vec<String> = args.ignored.warnings().collect();
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        let options = args.options().unwrap();
        assert_eq!(options.rate, Some((2000.0, 2000)));
        assert_eq!(options.addresses.metrics.as_deref(), Some(":8080"));
        assert_eq!(options.addresses.healthz.as_deref(), Some(":11251"));
        assert_eq!(options.addresses.api, Some(ApiAddress::Usual("127.0.0.1:8082")));
        assert!(options.lease.is_none());
    }

    #[test]
    fn defaults_of_flags_equal_the_reference() {
        let options = parse(&[]).unwrap().options().unwrap();
        assert_eq!(options.scheduler_names, ["volcano"]);
        assert_eq!(options.schedule_period, Duration::from_secs(1));
        assert_eq!((options.conf, options.rate, options.addresses.metrics), (None, None, None));
        let lease = options.lease.expect("leader election is on");
        assert_eq!((&*lease.namespace, &*lease.name), ("volcano-system", "volcano"));
    }

    #[test]
    fn the_last_of_repeated_flags_counts_as_in_go() {
        let flags =
            ["--enable-metrics", "--enable-metrics=false", "--scheduler-name=a,b", "--scheduler-name=c"];
        let options = parse(&flags).unwrap().options().unwrap();
        assert_eq!(options.addresses.metrics, None, "the last one counts");
        assert_eq!(options.scheduler_names, ["a", "b", "c"], "lists grow");
        assert_eq!(options.lease.unwrap().name, "volcano");
    }

    #[test]
    fn the_api_is_served_where_the_flag_says_or_nowhere() {
        let address = |flag| parse(&[flag]).unwrap().options().unwrap().addresses.api;
        assert_eq!(address("--api-address=:1"), Some(ApiAddress::Given(":1".to_owned())));
        assert_eq!(address("--api-address="), None);
    }

    #[test]
    fn pods_wait_for_a_pod_group_controller_that_is_seen_or_in_any_case() {
        let wait = |flags: &[&str]| parse(flags).unwrap().options().map(|options| options.grouping.wait);
        assert_eq!(wait(&[]).unwrap(), GroupWait::IfSeen(30_000));
        assert_eq!(wait(&["--wait-for-podgroup"]).unwrap(), GroupWait::Always(30_000));
        assert_eq!(wait(&["--wait-for-podgroup-timeout=0s"]).unwrap(), GroupWait::Never);
        assert_eq!(wait(&["--controllers"]).unwrap(), GroupWait::Always(i64::MAX));
        let limited = wait(&["--controllers", "--wait-for-podgroup-timeout=5s"]);
        assert_eq!(limited.unwrap(), GroupWait::Always(5_000));
        let error = wait(&["--wait-for-podgroup", "--wait-for-podgroup-timeout=0s"]).unwrap_err();
        assert!(error.is::<BadInput>(), "{error}");
    }

    #[test]
    fn nodes_are_sampled_only_when_a_percentage_is_given() {
        let sampling = |flags: &[&str]| parse(flags).unwrap().options().unwrap().sampling;
        assert_eq!(sampling(&[]), None);
        assert_eq!(sampling(&["--minimum-feasible-nodes=5"]), None);
        assert_eq!(sampling(&["--percentage-nodes-to-find=100"]), None);
        let given = sampling(&["--percentage-nodes-to-find=0", "--minimum-percentage-nodes-to-find=7"]);
        let expected = Sampling { percentage: 0, minimum_percentage: 7, minimum_nodes: 100 };
        assert_eq!(given, Some(expected));
        assert!(parse(&["--minimum-feasible-nodes=5"]).unwrap().sampling.warning().is_some());
    }

    #[test]
    fn values_of_flags_out_of_range_are_refused() {
        for flags in [
            ["--schedule-period=often"],
            ["--leader-elect=perhaps"],
            ["--binds-in-flight=0"],
            ["--kube-api-qps=0"],
        ] {
            assert!(parse(&flags).is_err(), "{flags:?}");
        }
        for flags in [
            ["--leader-elect-renew-deadline=20s"],
            ["--leader-elect-retry-period=9s"],
            ["--leader-elect-retry-period=0s"],
        ] {
            let error = parse(&flags).unwrap().options().unwrap_err();
            assert!(error.is::<BadInput>(), "{error}");
        }
    }
}
