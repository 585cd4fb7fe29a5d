//! `render` and `diff`.
use phalanx_conf::{diff, render, render_with_defaults};
use phalanx_framework::conf::{Arg, Args, Conf, Flag, Flags, MetricsConf, PluginConf, Position, Tier, Value};
use proptest::prelude::*;

use super::{good, known, lines, read, with_plugin, without_positions};

#[test]
fn show_writes_every_flag_that_has_an_effect_and_the_defaults() {
    let conf = good(&with_plugin("binpack", &["enabledVictim: false", "arguments: {binpack.weight: 5}"]));
    let text = render_with_defaults(&conf, &known());
    let expected = "actions: \"allocate, backfill\"
tiers:
- plugins:
  - name: binpack
    enableJobOrder: true
    enableHierarchy: false
    enableJobReady: true
";
    assert!(text.starts_with(expected), "{text}");
    let expected = "    enabledVictim: false
    enabledOverused: true
    enabledAllocatable: true
    enabledHyperNodeOrder: true
    enabledHyperNodeGradient: true
    arguments:
      binpack.weight: 5
    #   binpack.resources:
    #   binpack.resources.*: 1
# arguments of action allocate:
#   predicateErrorCacheEnable: true
# arguments of action backfill:
#   predicateErrorCacheEnable: true
";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn show_leaves_out_what_is_a_default() {
    let flags = [
        "enabledVictim: false",
        "enableJobOrder: true",
        "enableHierarchy: true",
        "arguments: {binpack.weight: 5}",
    ];
    let expected = "actions: \"allocate, backfill\"
tiers:
- plugins:
  - name: binpack
    enableHierarchy: true
    enabledVictim: false
    arguments:
      binpack.weight: 5
";
    assert_eq!(render(&good(&with_plugin("binpack", &flags))), expected);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("equal to itself", |number| !number.is_nan()).prop_map(Value::Float),
        any::<String>().prop_map(Value::Text),
        "[yn~]|no|1_0|0x1|null|[.]inf|<<|# x|: |- a".prop_map(Value::Text),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            prop::collection::btree_map(any::<String>(), inner, 0..3).prop_map(Value::Map),
        ]
    })
}

fn arg(value: Value) -> Arg {
    Arg { value, at: Position::default() }
}

prop_compose! {
    fn conf()(
        flags in prop::collection::vec(any::<bool>(), 25),
        map in prop::collection::btree_map(any::<String>(), value(), 0..3),
        list in prop::collection::vec(value(), 0..3),
        title in any::<String>(),
        weight in any::<i64>(),
        resource in "[a-z.]{1,9}/[a-z: #]{0,8}[a-z:#]",
        address in any::<String>(),
    ) -> Conf {
        let mut set = Flags::default();
        for ((flag, _), on) in Flag::ALL.into_iter().zip(flags) {
            // An enabled flag without effect is a problem.
            set.set(flag, on && (flag.has_effect() || Flags::default().on(flag)));
        }
        let usage = [("thresholds", Value::Map(map)), ("strategies", Value::List(list)), ("usage.title", Value::Text(title))];
        let usage = Args(usage.map(|(key, value)| (key.to_owned(), arg(value))).into());
        let listed = Value::List(vec![Value::Text(resource.clone())]);
        let binpack = [("binpack.resources".to_owned(), arg(listed)), (format!("binpack.resources.{resource}"), arg(Value::Int(weight)))];
        let binpack = Args(binpack.into());
        let plugin = |name: &str, args| PluginConf { name: name.to_owned(), flags: set, args, ..PluginConf::default() };
        Conf {
            actions: vec!["allocate".to_owned(), "backfill".to_owned()],
            tiers: vec![Tier { plugins: vec![plugin("usage", usage)] }, Tier { plugins: vec![plugin("binpack", binpack)] }],
            metrics: MetricsConf([("elasticsearch.index".to_owned(), address)].into()),
            ..Conf::default()
        }
    }
}

proptest! {
    #[test]
    fn the_output_of_show_is_read_as_the_same_configuration(conf in conf()) {
        let text = render_with_defaults(&conf, &known());
        let parsed = read(&text);
        prop_assert_eq!(lines(&parsed), [""; 0], "{}", text);
        let again = without_positions(parsed.conf.expect("no problem"));
        prop_assert_eq!(diff(&conf, &again, &known()), [""; 0]);
        prop_assert_eq!(again, conf);
    }
}

/// Nor that of a key that is spelt wrong.
#[test]
fn a_password_is_shown_by_nothing() {
    let with = |password: &str| {
        let metrics =
            format!("metrics: {{elasticsearch.password: {password}, elasticsearch.pasword: {password}}}\n");
        read(&(with_plugin("gang", &[]) + &metrics))
    };
    let (old, new) = (with("hunter2"), with("hunter3"));
    let said = format!("{old:?} {new:?} {:?}", lines(&old));
    let (old, new) = (old.conf.expect("warnings only"), new.conf.expect("warnings only"));
    let changes = diff(&old, &new, &known());
    let shown = render(&old);
    assert_eq!(
        changes,
        [
            "metrics: elasticsearch.password changed (not shown)",
            "metrics: elasticsearch.pasword changed (not shown)"
        ]
    );
    assert!(shown.contains("# elasticsearch.password: not shown\n"), "{shown}");
    assert!(![said, shown].iter().any(|text| text.contains("hunter")));
    assert_eq!(read(&render(&new)).conf.map(|conf| conf.metrics), Some(MetricsConf::default()));
}

#[test]
fn show_quotes_a_key_that_ends_in_a_colon() {
    let conf = good(
        "actions: allocate, backfill
tiers:
- plugins:
  - name: binpack
    arguments: {binpack.resources: 'a/:', 'binpack.resources.a/:': 2}
",
    );
    let text = render_with_defaults(&conf, &known());
    assert!(text.contains("\"binpack.resources.a/:\": 2"), "{text}");
    assert_eq!(diff(&conf, &good(&text), &known()), [""; 0]);
}

#[test]
fn a_diff_names_each_change_of_meaning() {
    let old = good(
        "actions: backfill, allocate
tiers:
- plugins:
  - name: gang
  - name: drf
  - name: sla
    arguments: {sla-waiting-time: 5m}
- plugins:
  - name: binpack
  - name: overcommit
    arguments: {overcommit-factor: 1}
configurations:
- {name: allocate, arguments: {predicateErrorCacheEnable: false}}
metrics: {address: http://a}
profiles:
- {schedulerName: a, plugins: [{name: binpack, arguments: {binpack.weight: 5}}]}
",
    );
    let new = good(
        "# A comment.
actions: enqueue,allocate,backfill
tiers:
- plugins:
  - name: drf
  - name: gang
    enableJobOrder: false
    enableJobReady: true
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 1.0}
  - name: sla
    arguments: {sla-waiting-time: 6m}
  - name: usage
    enabledVictim: false
    arguments: {usage.title: x}
metrics: {type: prometheus, address: http://a}
profiles:
- {schedulerName: a, plugins: [{name: binpack, enableNodeOrder: false}]}
- {schedulerName: b, plugins: [{name: usage}]}
",
    );
    let expected = [
        "actions: backfill, allocate -> enqueue, allocate, backfill",
        "plugin gang: enableJobOrder true -> false",
        "plugin sla: tier 1 -> tier 2",
        "plugin sla: sla-waiting-time 5m -> 6m",
        "plugin binpack: tier 2 -> absent",
        "plugin usage: absent -> tier 2",
        "plugin usage: enabledVictim true -> false",
        "plugin usage: usage.title none (default) -> x",
        "tier 1: order gang, drf -> drf, gang",
        "profile a, plugin binpack: enableNodeOrder true -> false",
        "profile a, plugin binpack: binpack.weight 5 -> 1 (default)",
        "profile b, plugin usage: absent -> present",
        "action allocate: predicateErrorCacheEnable false -> true (default)",
        "metrics: type metrics_api (default) -> prometheus",
    ];
    assert_eq!(diff(&old, &new, &known()), expected);
    assert_eq!(diff(&new, &new, &known()), [""; 0]);
    assert_eq!(diff(&new, &good(&render(&new)), &known()), [""; 0], "profiles read back too");
}

#[test]
fn a_default_that_is_written_is_no_difference() {
    let conf = |binpack: &str, overcommit: &str, sla: &str, usage: &str| {
        let plugin =
            |name: &str, arguments: &str| format!("  - {{name: {name}, arguments: {{{arguments}}}}}\n");
        let plugins = [
            plugin("binpack", binpack),
            plugin("overcommit", overcommit),
            plugin("sla", sla),
            plugin("usage", usage),
        ];
        let head = "actions: allocate, backfill\ntiers:\n- plugins:\n  - name: gang\n";
        good(&(head.to_owned() + &plugins.concat()))
    };
    let short = conf("binpack.resources: a/b", "", "", "");
    let long = conf(
        "binpack.weight: 1, binpack.resources: [a/b], binpack.resources.a/b: 1",
        "overcommit-factor: 1.2",
        "",
        "thresholds: {mem: 80, cpu: 80}, usage.title: none, estimator: {ratio: 0.7, be_cpu: 0.25}",
    );
    assert_eq!((diff(&short, &long, &known()), diff(&long, &short, &known())), (Vec::new(), Vec::new()));
    let other =
        conf("binpack.resources: a/b", "", "sla-waiting-time: 60s", "estimator: {ratio: 0.7, be_cpu: 1}");
    let expected = [
        "plugin sla: sla-waiting-time not set -> 60s",
        "plugin usage: estimator not set -> {be_cpu: 1, ratio: 0.7}",
    ];
    assert_eq!(diff(&short, &other, &known()), expected);
    let again = conf("binpack.resources: a/b", "", "sla-waiting-time: 1m", "estimator: {be_cpu: 1000m}");
    assert_eq!(diff(&other, &again, &known()), [""; 0], "the same amounts");
}
