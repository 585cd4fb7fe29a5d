//! Events that say what the scheduler wrote itself.
use phalanx_cluster::event::{Event, PodGroupInfo, PodInfo, Time};
use phalanx_core::decision::Decision;
use phalanx_core::{Patience, Scheduler};
use phalanx_framework::conf::{Conf, PluginConf, Tier};
use phalanx_framework::testing::{group, job_of, member, node, world_of};

#[test]
fn an_echo_of_what_was_written_wakes_nobody() {
    let pod = member("g", 0, "cpu=9");
    let events: [Event; 3] = [node("n", "cpu=4").into(), group("g", 1).into(), pod.clone().into()];
    let mut world = world_of(events);
    let plugins =
        ["gang", "predicates"].map(|name| PluginConf { name: name.into(), ..PluginConf::default() });
    let conf = Conf {
        actions: vec!["enqueue".into(), "allocate".into()],
        tiers: vec![Tier { plugins: plugins.into() }],
        ..Conf::default()
    };
    let mut scheduler = Scheduler::new(conf, 0);
    scheduler.set_patience(Patience { few: 0, ..Patience::default() });
    let decisions = scheduler.run(&mut world, Time(0)).decisions;
    assert_eq!(scheduler.active_jobs(&mut world), [], "parked");
    let status = decisions.iter().find_map(|decision| match decision {
        Decision::PodGroupStatus { status, .. } => Some(status.clone()),
        _ => None,
    });
    let status = status.expect("a status");
    let echo = PodGroupInfo { status: status.clone(), ..group("g", 1) };
    world.apply(echo.clone().into());
    world.apply(PodInfo { unscheduled_message: Some("no room".into()), ..pod.clone() }.into());
    assert_eq!(scheduler.active_jobs(&mut world), []);

    let job = job_of(&world, "g");
    for other in [PodGroupInfo { min_member: 2, ..echo.clone() }, echo, group("g", 1)] {
        world.apply(other.into());
        assert_eq!(scheduler.active_jobs(&mut world), [job], "somebody else's word");
        scheduler.run(&mut world, Time(0));
    }
    world.apply(PodInfo { priority: Some(7), ..pod }.into());
    assert_eq!(scheduler.active_jobs(&mut world), [job]);
}
