//! scheduler.conf under a running scheduler.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{Api, api::ListParams};
use phalanx_e2e::{Phalanx, PlaneOptions, fake, phalanx, wait};

use super::cluster::{Cluster, PodSpec, SOON};

fn conf(actions: &str) -> String {
    format!(
        "actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n\
         - plugins:\n  - name: drf\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
    )
}

#[tokio::test]
async fn a_valid_edit_takes_effect_and_an_invalid_edit_does_not() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("9")).await?;
    let path = cluster.file("scheduler.conf");
    fs::write(&path, conf("enqueue, allocate, backfill"))?;
    let flag = format!("--scheduler-conf={}", path.display());
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&flag]).await?);
    cluster.gang("f", 3, &PodSpec::cpu(1)).await?;
    cluster.until_bound("f-", 3).await?;

    // Only pods that ask for nothing get a node; by the built-in default, and by the file at the start, all would.
    fs::write(&path, conf("enqueue, backfill"))?;
    until_reloads(&cluster, "success", 1).await?;
    only_backfills(&cluster, "g").await?;

    fs::write(&path, conf("enqueue, alocate"))?;
    wait::until(SOON, "the mistake to be reported", async || {
        let log = cluster.phalanx().log_text();
        ensure!(log.contains("alocate") && log.contains("scheduler.conf:1:"), "{log}");
        let errors = cluster.phalanx().metric("phalanx_conf_reloads_total{result=\"error\"}").await?;
        ensure!(errors > 0.5, "{errors}");
        Ok(())
    })
    .await?;
    only_backfills(&cluster, "h").await?;

    fs::write(&path, conf("enqueue, allocate, backfill"))?;
    cluster.until_bound("g-", 3).await?;
    cluster.until_bound("h-", 3).await
}

/// A new gang waits, and stays so after a later pod without requests has got its node.
async fn only_backfills(cluster: &Cluster, gang: &str) -> Result<()> {
    cluster.gang(gang, 3, &PodSpec::cpu(1)).await?;
    cluster.until_phase(gang, "Inqueue").await?;
    let free = format!("free-{gang}");
    cluster.create::<Pod>(PodSpec::cpu(0).single(&free)).await?;
    cluster.until_bound(&free, 1).await?;
    cluster.stays_bound(&format!("{gang}-"), 0).await
}

/// A directory as the kubelet mounts a ConfigMap: all files are links through `..data`, which is swapped whole.
struct Mount {
    dir: PathBuf,
    generation: u32,
}

impl Mount {
    fn new(dir: PathBuf, text: &str) -> Result<Self> {
        fs::create_dir(&dir)?;
        symlink("..data/scheduler.conf", dir.join("scheduler.conf"))?;
        let mut mount = Self { dir, generation: 0 };
        mount.swap(text)?;
        Ok(mount)
    }

    fn swap(&mut self, text: &str) -> Result<()> {
        let old = self.dir.join(format!("..{}", self.generation));
        self.generation += 1;
        let name = format!("..{}", self.generation);
        fs::create_dir(self.dir.join(&name))?;
        fs::write(self.dir.join(&name).join("scheduler.conf"), text)?;
        symlink(&name, self.dir.join("..data_tmp"))?;
        fs::rename(self.dir.join("..data_tmp"), self.dir.join("..data"))?;
        if old.exists() { Ok(fs::remove_dir_all(old)?) } else { Ok(()) }
    }

    fn flag(&self) -> String {
        format!("--scheduler-conf={}", Path::new(&self.dir).join("scheduler.conf").display())
    }
}

pub(super) async fn until_reloads(cluster: &Cluster, result: &str, count: u32) -> Result<()> {
    let metric = format!("phalanx_conf_reloads_total{{result=\"{result}\"}}");
    wait::until(SOON, &format!("{count} reloads with {result}"), async || {
        let reloads = cluster.phalanx().metric(&metric).await?;
        ensure!((reloads - f64::from(count)).abs() < 0.5, "{reloads}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_swapped_configmap_is_reloaded() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("9")).await?;
    let mut mount = Mount::new(cluster.file("conf"), &conf("enqueue, allocate, backfill"))?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&mount.flag()]).await?);
    cluster.gang("f", 3, &PodSpec::cpu(1)).await?;
    cluster.until_bound("f-", 3).await?;

    mount.swap(&conf("enqueue, backfill"))?;
    until_reloads(&cluster, "success", 1).await?;
    only_backfills(&cluster, "g").await?;

    mount.swap(&conf("enqueue, alocate"))?;
    until_reloads(&cluster, "error", 1).await?;
    let log = cluster.phalanx().log_text();
    ensure!(log.contains("scheduler.conf:1:") && log.contains("alocate"), "{log}");
    ensure!(log.contains("the last good scheduler.conf stays in effect"), "{log}");
    only_backfills(&cluster, "h").await?;

    mount.swap(&conf("enqueue, allocate, backfill"))?;
    until_reloads(&cluster, "success", 2).await?;
    cluster.until_bound("g-", 3).await?;
    cluster.until_bound("h-", 3).await
}

/// The SHA-256 that the metrics name, and whether the last scheduler.conf took effect.
async fn in_force(cluster: &Cluster) -> Result<(String, bool)> {
    let metrics = cluster.phalanx().metrics().await?;
    let named = metrics.lines().find_map(|line| line.strip_prefix("phalanx_conf_info{sha256=\""));
    let hash = named.and_then(|rest| rest.strip_suffix("\"} 1")).context("a hash")?.to_owned();
    let good = cluster.phalanx().metric("phalanx_conf_last_reload_successful").await?;
    Ok((hash, good > 0.5))
}

#[tokio::test]
async fn a_configuration_with_misspelt_plugins_is_refused() -> Result<()> {
    let good = conf("enqueue, allocate, backfill");
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("6")).await?;
    let mut mount = Mount::new(cluster.file("conf"), &good)?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&mount.flag()]).await?);
    let (hash, _) = in_force(&cluster).await?;

    mount.swap(&good.replace("- plugins:", "- plugin:"))?;
    until_reloads(&cluster, "error", 1).await?;
    assert_eq!(in_force(&cluster).await?, (hash.clone(), false));
    let log = cluster.phalanx().log_text();
    ensure!(log.contains("unknown key \\\"plugin\\\"") && log.contains("scheduler.conf:3:3"), "{log}");
    cluster.gang("g", 8, &PodSpec::cpu(1)).await?;
    cluster.until_waits("g-0", "Insufficient cpu").await?;
    cluster.stays_bound("g-", 0).await?;

    mount.swap(&format!("# As before.\n{good}"))?;
    until_reloads(&cluster, "success", 1).await?;
    let (fresh, successful) = in_force(&cluster).await?;
    ensure!(fresh != hash && successful, "{fresh} is in force");
    fake::Nodes::new(1).starting_at(1).cpu("2").create(&cluster.client).await?;
    cluster.until_bound("g-", 8).await
}

#[tokio::test]
async fn an_invalid_configuration_at_the_start_ends_the_process_with_line_and_column() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("scheduler.conf");
    fs::write(&path, conf("enqueue, alocate"))?;
    let flag = format!("--scheduler-conf={}", path.display());
    let (code, error) = phalanx::run(&["scheduler", &flag]).await?;
    assert_eq!(code, 2, "{error}");
    ensure!(error.contains("scheduler.conf:1:") && error.contains("alocate"), "{error}");
    let (code, error) = phalanx::run(&["scheduler", "--schedule-period=often"]).await?;
    assert_eq!(code, 2, "{error}");
    Ok(())
}

/// What an event on the pod of the scheduler says.
async fn told(cluster: &Cluster, reason: &str) -> Result<Event> {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
    wait::until(SOON, &format!("an event {reason}"), async || {
        let of_pod =
            |event: &Event| event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some("own"));
        let all = events.list(&ListParams::default()).await?.items;
        let one = all.into_iter().find(|event| of_pod(event) && event.reason.as_deref() == Some(reason));
        one.with_context(|| format!("no {reason}"))
    })
    .await
}

#[tokio::test]
async fn events_on_the_pod_of_the_scheduler_tell_what_came_of_an_edit() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("9")).await?;
    let mut mount = Mount::new(cluster.file("conf"), &conf("enqueue, allocate, backfill"))?;
    let pod = [("POD_NAMESPACE", "default"), ("POD_NAME", "own"), ("POD_UID", "1234")];
    cluster.scheduler = Some(Phalanx::start_in_pod(&cluster.plane, &pod, &[&mount.flag()]).await?);

    mount.swap(&conf("enqueue, alocate"))?;
    let refused = told(&cluster, "ConfRefused").await?;
    let (note, kind) = (refused.note.unwrap_or_default(), refused.type_.unwrap_or_default());
    ensure!(
        kind == "Warning" && note.starts_with("the last good scheduler.conf stays in effect: "),
        "{kind}: {note}"
    );
    ensure!(note.contains("scheduler.conf:1:") && note.contains("alocate"), "{note}");
    assert_eq!(refused.regarding.and_then(|pod| pod.uid).as_deref(), Some("1234"));

    mount.swap(&conf("enqueue, backfill"))?;
    let taken = told(&cluster, "ConfReloaded").await?;
    let (note, kind) = (taken.note.unwrap_or_default(), taken.type_.unwrap_or_default());
    ensure!(kind == "Normal" && note.starts_with("scheduler.conf reloaded: actions"), "{kind}: {note}");
    Ok(())
}
