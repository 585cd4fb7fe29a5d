//! `phalanx controllers`: vc-controller-manager's flags, and what they mean here.
use std::path::PathBuf;

use anyhow::Result;
use phalanx_runtime::client::BadFlag;
use phalanx_runtime::controllers::{ControllersOptions, NAME, ProcessOptions, run as control};

use crate::exit::BadInput;
use crate::flag;
use crate::podgroups::PodGroups;
use crate::scheduler::ignored::{Ignored, OfControllers};
use crate::scheduler::logging::Logging;
use crate::scheduler::{Connection, Elect, ServedPages, given};

/// Flags of `controllers`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// PodGroups are made for pods with one of these schedulerNames; the first one is the scheduler of Jobs that name
    /// none
    #[arg(long, default_value = "volcano", value_delimiter = ',', value_name = "NAME", value_parser = flag::scheduler_name())]
    scheduler_name: Vec<String>,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    client: Connection,
    /// Where metrics are served
    #[arg(long, default_value = ":8081", value_name = "ADDRESS")]
    listen_address: String,
    #[command(flatten)]
    pages: ServedPages,
    #[command(flatten)]
    elect: Elect,
    #[command(flatten)]
    logging: Logging,
    #[command(flatten)]
    ignored: Ignored<OfControllers>,
}

/// Flags of the controllers that `scheduler --controllers` has too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Shared {
    /// Of the controllers: writes for a Job that are refused in a row before the Job is terminated; below 0 for never
    #[arg(long, default_value_t = 15, value_name = "N", allow_negative_numbers = true, value_parser = flag::whole::<i32>(i32::MIN..=i32::MAX))]
    max_requeue_num: i32,
    #[command(flatten)]
    groups: PodGroups,
}

impl Shared {
    /// The controllers for pods with these scheduler names. Their lease has Volcano's name unless `elect` names another.
    pub(crate) fn options(
        &self,
        scheduler_names: &[String],
        elect: &Elect,
        rate: Option<(f64, u32)>,
    ) -> Result<ControllersOptions> {
        Ok(ControllersOptions {
            owners: self.groups.owners()?,
            rate,
            failures_max: u32::try_from(self.max_requeue_num).ok(),
            lease: elect.lease(|| Ok(NAME.to_owned()))?,
            namespace: elect.namespace().to_owned(),
            ..ControllersOptions::new(scheduler_names)
        })
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    args.logging.init()?;
    for warning in args.ignored.warnings() {
        tracing::warn!("{warning}");
    }
    control(args.options()?)
        .map_err(|error| error.downcast::<BadFlag>().map_or_else(|error| error, |bad| BadInput(bad.0).into()))
}

impl Args {
    fn options(self) -> Result<ProcessOptions> {
        let controllers = self.shared.options(&self.scheduler_name, &self.elect, self.client.rate())?;
        Ok(ProcessOptions {
            controllers,
            kubeconfig: given(self.client.kubeconfig).map(PathBuf::from),
            master: given(self.client.master),
            http2: self.client.http2,
            addresses: self.pages.addresses(self.listen_address),
        })
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

    fn options(flags: &[&str]) -> ProcessOptions {
        let words = ["controllers"].into_iter().chain(flags.iter().copied());
        Cli::try_parse_from(words).unwrap().args.options().unwrap()
    }

    #[test]
    fn defaults_of_flags_equal_the_reference() {
        let ProcessOptions { controllers, addresses, .. } = options(&[]);
        assert_eq!((&*controllers.scheduler_names[0], controllers.failures_max), ("volcano", Some(15)));
        assert_eq!((addresses.metrics, addresses.healthz), (None, None));
        let lease = controllers.lease.expect("leader election is on");
        assert_eq!((&*lease.namespace, &*lease.name), ("volcano-system", "vc-controller-manager"));
    }

    /// The arguments of Volcano's chart, and others that its binary has.
    #[test]
    fn a_command_line_made_for_volcano_is_accepted() {
        let chart = [
            "--logtostderr",
            "--enable-healthz=true",
            "--enable-metrics=true",
            "--leader-elect=false",
            "--leader-elect-resource-namespace=volcano-system",
            "--kube-api-qps=50",
            "--kube-api-burst=100",
            "--worker-threads=3",
            "--worker-threads-for-gc=5",
            "--worker-threads-for-podgroup=5",
            "--max-requeue-num=-1",
            "--inherit-owner-annotations=true",
            "-v=4",
        ];
        let ProcessOptions { controllers, addresses, .. } = options(&chart);
        assert_eq!((controllers.rate, controllers.failures_max), (Some((50.0, 100)), None));
        assert!(controllers.lease.is_none());
        assert_eq!(addresses.metrics.as_deref(), Some(":8081"));
    }
}
