//! The files that an operator copies.
use std::path::Path;

use phalanx_conf::{Doc, Known, builtin_default, diff, parse, render, render_with_defaults};
use phalanx_framework::conf::{ArgKind, ArgSpec, Conf, Flag};

use super::{arg, without_positions};

/// The arguments that the files use, as documented for Volcano.
fn shipped_known() -> Known {
    const OVERCOMMIT: &[ArgSpec] = &[arg("overcommit-factor", ArgKind::Float(&[]), "1.2")];
    const NODEORDER: &[ArgSpec] = &[
        arg("leastrequested.weight", ArgKind::Int(&[]), "1"),
        arg("mostrequested.weight", ArgKind::Int(&[]), "0"),
        arg("balancedresource.weight", ArgKind::Int(&[]), "1"),
        arg("tainttoleration.weight", ArgKind::Int(&[]), "3"),
    ];
    const BINPACK: &[ArgSpec] = &[
        arg("binpack.weight", ArgKind::Int(&[]), "1"),
        arg("binpack.cpu", ArgKind::Int(&[]), "1"),
        arg("binpack.memory", ArgKind::Int(&[]), "1"),
        arg("binpack.resources", ArgKind::Names(&[]), ""),
        arg("binpack.resources.*", ArgKind::Int(&[]), "1"),
    ];
    const NETWORK: &[ArgSpec] = &[
        arg("hypernode.binpack.cpu", ArgKind::Int(&[]), "1"),
        arg("hypernode.binpack.memory", ArgKind::Int(&[]), "1"),
        arg("hypernode.binpack.resources", ArgKind::Names(&[]), ""),
        arg("hypernode.binpack.resources.*", ArgKind::Int(&[]), "1"),
    ];
    const POD: &[ArgSpec] = &[arg("part", ArgKind::Float(&[]), "1"), arg("requests", ArgKind::Map, "")];
    const FRAGMENTATION: &[ArgSpec] = &[
        arg("fragmentation.weight", ArgKind::Int(&[]), "1"),
        arg("fragmentation.resource", ArgKind::Text(&[]), "nvidia.com/gpu"),
        arg("fragmentation.pods", ArgKind::Sections(POD), ""),
    ];
    let with = [
        ("overcommit", OVERCOMMIT),
        ("nodeorder", NODEORDER),
        ("binpack", BINPACK),
        ("fragmentation", FRAGMENTATION),
        ("network-topology-aware", NETWORK),
    ];
    let without = ["priority", "gang", "conformance", "drf", "predicates", "proportion", "capacity", "sla"]
        .map(|name| (name, &[][..]));
    let doc = |(name, args)| Doc { name, args };
    Known {
        plugins: with.into_iter().chain(without).map(doc).collect(),
        actions: ["enqueue", "allocate", "backfill", "reclaim", "preempt", "gangpreempt"]
            .map(|name| doc((name, &[])))
            .into(),
        ..Known::default()
    }
}

fn shipped(name: &str) -> (String, Conf) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config").join(name);
    let text = std::fs::read_to_string(&path).expect("a file of config/");
    let parsed = parse(&text, &shipped_known());
    assert_eq!(parsed.problems, [], "{name}");
    (text, parsed.conf.expect("no problem"))
}

fn names() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let paths = std::fs::read_dir(dir).expect("config/").map(|entry| entry.expect("an entry").path());
    let names: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .collect();
    assert!(names.len() >= 5, "{names:?}");
    names
}

#[test]
fn shipped_files_have_no_problems_and_show_keeps_their_meaning() {
    for name in names() {
        let (_, conf) = shipped(&name);
        let meant = Some(without_positions(conf.clone()));
        for text in [render(&conf), render_with_defaults(&conf, &shipped_known())] {
            let again = parse(&text, &shipped_known());
            assert_eq!(again.problems, [], "{name}");
            assert_eq!(again.conf.map(without_positions), meant, "{name}");
        }
    }
}

fn plugins(conf: &Conf) -> Vec<Vec<&str>> {
    conf.tiers.iter().map(|tier| tier.plugins.iter().map(|plugin| plugin.name.as_str()).collect()).collect()
}

#[test]
fn the_default_configuration_equals_that_of_volcano() {
    let (text, conf) = shipped("default.yaml");
    assert_eq!(text, builtin_default());
    assert_eq!(conf.actions, ["enqueue", "allocate", "backfill"]);
    let tier_2 = vec!["overcommit", "drf", "predicates", "proportion", "nodeorder"];
    assert_eq!(plugins(&conf), [vec!["priority", "gang", "conformance"], tier_2]);
}

#[test]
fn the_configuration_of_the_chart_has_binpack_and_no_preemption_by_gang_and_drf() {
    let (default, helm) = (shipped("default.yaml").1, shipped("helm-default.yaml").1);
    let off = |name: &str| format!("plugin {name}: enablePreemptable true -> false");
    assert_eq!(
        diff(&default, &helm, &Known::builtin()),
        [off("gang"), off("drf"), "plugin binpack: absent -> tier 2".to_owned()]
    );
    assert!(!helm.tiers[0].plugins[1].flags.on(Flag::Preemptable));
}
