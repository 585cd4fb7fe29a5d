//! scheduler.conf under a running scheduler.

use std::fs;

use anyhow::{Result, ensure};
use phalanx_e2e::{Phalanx, PlaneOptions, fake, phalanx, wait};

use super::cluster::{Cluster, PodSpec, SOON};

fn conf(actions: &str) -> String {
    format!(
        "actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n\
         - plugins:\n  - name: drf\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
    )
}

#[tokio::test]
async fn an_edit_takes_effect_and_a_bad_one_changes_nothing() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("9")).await?;
    let path = cluster.file("scheduler.conf");
    fs::write(&path, conf("enqueue, backfill"))?;
    let flag = format!("--scheduler-conf={}", path.display());
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&flag]).await?);
    cluster.gang("g", 3, &PodSpec::cpu(1)).await?;
    cluster.until_phase("g", "Inqueue").await?;
    cluster.stays_bound("g-", 0).await?;

    fs::write(&path, conf("enqueue, allocate, backfill"))?;
    cluster.until_bound("g-", 3).await?;

    fs::write(&path, conf("enqueue, alocate"))?;
    wait::until(SOON, "the mistake to be reported", async || {
        let log = cluster.phalanx().log_text();
        ensure!(log.contains("alocate") && log.contains("scheduler.conf:1:"), "{log}");
        let errors = cluster.phalanx().metric("phalanx_conf_reloads_total{result=\"error\"}").await?;
        ensure!(errors > 0.5, "{errors}");
        Ok(())
    })
    .await?;
    cluster.gang("h", 3, &PodSpec::cpu(1)).await?;
    cluster.until_bound("h-", 3).await
}

#[tokio::test]
async fn a_bad_conf_at_the_start_ends_the_process_with_the_place_of_the_mistake() -> Result<()> {
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
