//! `allocate` against brute force for those that come while a gang waits in promised places which depend on where such pods are:
//! the gang can start whatever they get, and one pod waits only where every place for it would keep the gang from that.
use phalanx_cluster::Status;
use phalanx_cluster::event::Time;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::cluster::{Cluster, cases};
use crate::small::{self, Held, Host, Member, Places, Rules, Set, Small};
use phalanx_framework::testing::group;

#[derive(Clone, Debug)]
struct Case {
    /// With the gang that waits.
    small: Small,
    /// Pods that are being deleted.
    gone: Set,
    /// The gang that comes.
    newcomers: Vec<Member>,
}

fn held(name: String, member: &Member, node: usize) -> Held {
    Held { name, group: "g0".into(), node, asks: member.asks, rules: member.rules.clone() }
}

fn asking(with: f64, without: f64, spread: f64) -> impl Strategy<Value = Member> {
    (1i64..5, small::rules(with, without, spread)).prop_map(|(cores, rules)| Member {
        asks: [cores, 0],
        only: None,
        rules,
    })
}

prop_compose! {
    /// Nodes in racks, each with a pod on it that stays or leaves, if any.
    fn case()(
        hosts in prop::collection::vec((1i64..8, 0usize..3), 2..=5),
        others in prop::collection::vec((0i64..5, prop::bool::weighted(0.6), any::<[bool; 2]>()), 5),
        members in prop::collection::vec(asking(0.4, 0.1, 0.5), 1..=3),
        newcomers in prop::collection::vec(asking(0.0, 0.2, 0.0), 1..=3),
    ) -> Case {
        let there = others.into_iter().zip(&hosts).enumerate().filter(|(_, ((cores, ..), _))| *cores > 0);
        let (pods, leaves): (Vec<Held>, Vec<bool>) = there
            .map(|(at, ((cores, leaves, colours), (room, _)))| {
                let rules = Rules { colours, ..Rules::default() };
                (held(format!("g0-{at}"), &Member { asks: [cores.min(*room), 0], only: None, rules }, at), leaves)
            })
            .unzip();
        let gone = leaves.iter().enumerate().fold(0, |set, (at, leaves)| set | Set::from(*leaves) << at);
        let hosts = hosts.into_iter().map(|(cores, rack)| Host { room: [cores, 0], rack: Some(rack) }).collect();
        let min = members.len();
        Case { small: Small { hosts, pods, members, min }, gone, newcomers }
    }
}

impl Case {
    fn arrive(&self, cluster: &mut Cluster) {
        let count = self.newcomers.len();
        cluster.add(group("newcomer", count as u32));
        let newcomers = Small { members: self.newcomers.clone(), min: count, ..self.small.clone() };
        for (at, mut pod) in newcomers.asking().enumerate() {
            pod.pod.name = format!("newcomer-{at}").into();
            pod.pod.uid = pod.pod.name.clone();
            pod.group = Some("newcomer".into());
            cluster.add(pod);
        }
    }

    /// Whether the gang can start in its places with those on nodes that came.
    fn stands(&self, places: &Places, newcomers: &[Option<usize>]) -> bool {
        let mut small = self.small.clone();
        let there = self.newcomers.iter().zip(newcomers);
        small.pods.extend(there.filter_map(|(it, node)| Some(held("newcomer".into(), it, (*node)?))));
        small.leads_to(self.gone, &|_| true, places)
    }

    /// Whether the first that came may be on a node with the gang in its places, once these pods are gone.
    fn admits(&self, places: &Places, gone: Set, node: usize) -> bool {
        let mut small = self.small.clone();
        let members = small.members.iter().zip(places).enumerate();
        let placed =
            members.filter_map(|(at, (member, node))| Some(held(format!("asks-{at}"), member, (*node)?)));
        let placed: Vec<Held> = placed.collect();
        small.pods.extend(placed);
        small.members = vec![self.newcomers[0].clone()];
        small.leads_to(gone, &|_| true, &vec![Some(node)])
    }
}

/// Where members of a group are, or are to be.
fn places(cluster: &Cluster, name: &str, count: usize) -> Places {
    let world = &cluster.world;
    let of = |at: usize| {
        let (_, task) = world.tasks.iter().find(|(_, task)| *task.pod.name == *format!("{name}-{at}"))?;
        world.nodes[task.node?].name.trim_start_matches('n').parse().ok()
    };
    (0..count).map(of).collect()
}

fn is_promised(cluster: &Cluster, name: &str) -> bool {
    let mut tasks = cluster.world.tasks.iter();
    tasks.any(|(_, task)| task.pod.name.starts_with(name) && task.status == Status::Pipelined)
}

fn check(case: &Case) -> TestCaseResult {
    let mut cluster = case.small.with_leaving(case.gone);
    cluster.cycle();
    let before = places(&cluster, "asks", case.small.members.len());
    prop_assume!(is_promised(&cluster, "asks-") && case.stands(&before, &[]));
    let count = case.newcomers.len();
    case.arrive(&mut cluster);
    let cycle = cluster.cycle();
    let after = places(&cluster, "asks", case.small.members.len());
    let nodes = places(&cluster, "newcomer", count);
    let bound = cycle.bound_of("newcomer") > 0;
    // Whoever waits as well may come behind it.
    prop_assert!(case.stands(&after, if bound { &nodes } else { &[] }), "{after:?} with {nodes:?}");
    prop_assert!(nodes.iter().all(Option::is_none) || nodes.iter().all(Option::is_some), "{nodes:?}");
    if count > 1 {
        return Ok(());
    }
    let all = |may: &dyn Fn(usize) -> bool| {
        (0..case.small.hosts.len()).find(|at| may(*at) && case.stands(&after, &[Some(*at)]))
    };
    let later = all(&|at| case.admits(&after, case.gone, at));
    // What counts on pods that are only promised their places has to wait for them.
    let nobody = vec![None; after.len()];
    let now = all(&|at| case.admits(&after, 0, at) && case.admits(&nobody, 0, at));
    let reasons = cluster.reasons("newcomer");
    prop_assert!(nodes[0].is_some() || later.is_none(), "{later:?} would do: {reasons:?}");
    prop_assert!(bound || now.is_none(), "{now:?} would do now: {reasons:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 1 << 20, ..ProptestConfig::with_cases(cases(1000)) })]

    #[test]
    fn nobody_lets_a_gang_down_and_a_pod_waits_for_one_only_where_it_must(case in case()) {
        check(&case)?;
    }
}

/// A gang that waits in the first of two racks, evenly spread, and a pod of the kind that is counted, which has room there only.
fn waiting() -> (Case, Cluster) {
    let host = |cores, rack| Host { room: [cores, 0], rack: Some(rack) };
    let plain = Member { asks: [4, 0], only: None, rules: Rules::default() };
    let counted = Rules { colours: [true, false], ..Rules::default() };
    let spread = small::evenly(0, small::Topology::Rack);
    let case = Case {
        small: Small {
            hosts: vec![host(4, 0), host(3, 0), host(1, 1)],
            pods: vec![held("g0-0".into(), &plain, 0)],
            members: vec![Member { rules: Rules { spread: vec![spread], ..counted.clone() }, ..plain }],
            min: 1,
        },
        gone: 1,
        newcomers: vec![Member { asks: [2, 0], only: None, rules: counted }],
    };
    let mut cluster = case.small.with_leaving(case.gone);
    cluster.cycle();
    case.arrive(&mut cluster);
    (case, cluster)
}

#[test]
fn who_waits_for_a_gang_starts_as_soon_as_that_has() {
    let (_, mut cluster) = waiting();
    assert_eq!(cluster.outcome().wake, Some(Time(2000 + 600_000)));
    assert!(cluster.cycle().bound.is_empty());
    cluster.gone("g0-0");
    assert_eq!(cluster.cycle().names(), ["asks-0", "newcomer-0"]);
}

#[test]
fn nobody_waits_for_a_gang_for_ever() {
    let (_, mut cluster) = waiting();
    assert!(cluster.cycle().bound.is_empty());
    cluster.now = Time(601_000);
    assert_eq!(cluster.cycle().names(), ["newcomer-0"]);
}
