//! One cycle and more with the plugins beyond Volcano's default ones.
use phalanx_cluster::event::{Phase, PodGroupInfo};
use phalanx_framework::conf::{Conf, PluginConf, Tier, Value};

use phalanx_framework::testing::{args, group, member, resources};
use phalanx_testkit::TestCluster;

type Row<'a> = (&'a str, &'a [(&'a str, Value)]);

/// A configuration with these plugins, tier by tier.
fn conf(tiers: &[&[Row<'_>]]) -> Conf {
    let plugin = |(name, list): &Row<'_>| PluginConf {
        name: (*name).into(),
        args: args(list),
        ..PluginConf::default()
    };
    Conf {
        actions: ["enqueue", "allocate", "backfill"].map(Into::into).into(),
        tiers: tiers.iter().map(|tier| Tier { plugins: tier.iter().map(plugin).collect() }).collect(),
        ..Conf::default()
    }
}

#[test]
fn sla_admits_a_job_after_its_waiting_time() {
    let sla: &[Row<'_>] = &[("sla", &[("sla-waiting-time", "2s".into())]), ("gang", &[])];
    let mut test = TestCluster::with(conf(&[sla, &[("overcommit", &[])]]));
    test.nodes(1, "cpu=1");
    test.add(PodGroupInfo { min_resources: Some(resources("cpu=5")), ..group("big", 1) });
    test.add(member("big", 0, "cpu=1"));
    test.cycle();
    assert_eq!(test.phase("big"), Phase::Pending, "after a second it is still too large");
    let cycle = test.cycle();
    assert_eq!(test.phase("big"), Phase::Running, "after two it is let in");
    assert_eq!(cycle.names(), ["big-0"]);
}

#[test]
fn sla_keeps_the_nominations_of_an_overdue_gang() {
    let sla: &[Row<'_>] = &[("sla", &[("sla-waiting-time", "2s".into())])];
    let mut test = TestCluster::with(conf(&[sla, &[("gang", &[])]]));
    test.nodes(2, "cpu=1").gang(group("big", 3), 3, "cpu=1");
    assert!(test.cycle().nominated.is_empty(), "nothing is kept in time");
    assert_eq!(test.cycle().nominated.len(), 2);
    test.gang(group("small", 1), 1, "cpu=1");
    assert!(test.cycle().bound.is_empty(), "the room stays with the gang");
    test.add(phalanx_framework::testing::node("n2", "cpu=1"));
    assert_eq!(test.cycle().bound_of("big"), 3);
}
