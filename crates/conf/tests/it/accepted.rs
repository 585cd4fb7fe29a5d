//! The meaning of valid files.
use phalanx_framework::conf::{Flag, Position, Value};

use super::{good, known, lines, read, with_plugin};

#[test]
fn a_file_with_every_key_is_read() {
    let conf = good(
        r#"
actions: " enqueue ,allocate, backfill"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
    enabledVictim: off
  - name: drf
    enableHierarchy: true
- plugins:
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: nvidia.com/gpu, example.com/foo
      binpack.resources.nvidia.com/gpu: 2
  - name: sla
    arguments: {sla-waiting-time: 1h2m3s}
  - name: usage
    arguments:
      thresholds: {cpu: 80, nested: {mem: [1, two, 3.5, null]}}
      strategies: [{name: x}]
configurations:
- name: allocate
  arguments:
    predicateErrorCacheEnable: "false"
metrics:
  type: prometheus
  address: http://localhost:9090
  interval: 30s
"#,
    );
    assert_eq!(conf.actions, ["enqueue", "allocate", "backfill"]);
    let gang = &conf.tiers[0].plugins[0];
    assert_eq!((gang.name.as_str(), gang.at), ("gang", Position { line: 5, column: 11 }));
    assert!(
        !gang.flags.on(Flag::Preemptable) && !gang.flags.on(Flag::Victim) && gang.flags.on(Flag::JobOrder)
    );
    assert!(!gang.flags.on(Flag::Hierarchy), "off unless asked for");
    assert!(conf.tiers[0].plugins[1].flags.on(Flag::Hierarchy));
    let binpack = &conf.tiers[1].plugins[0].args;
    assert_eq!(binpack.int("binpack.weight", 1), 10);
    assert_eq!(binpack.0["binpack.weight"].at, Position { line: 13, column: 23 });
    assert_eq!(binpack.names("binpack.resources"), ["nvidia.com/gpu", "example.com/foo"]);
    assert_eq!(binpack.int("binpack.resources.nvidia.com/gpu", 1), 2);
    let Some(Value::Map(thresholds)) = conf.tiers[1].plugins[2].args.get("thresholds") else {
        panic!("a mapping")
    };
    assert_eq!(thresholds["cpu"], Value::Int(80));
    let nested = [Value::Int(1), Value::Text("two".to_owned()), Value::Float(3.5), Value::Null];
    assert_eq!(thresholds["nested"], Value::Map([("mem".to_owned(), Value::List(nested.to_vec()))].into()));
    assert!(!conf.action_args("allocate").bool("predicateErrorCacheEnable", true));
    assert_eq!(conf.metrics["interval"], "30s");
}

#[test]
fn flags_take_every_spelling_of_a_boolean() {
    let spellings = [
        (true, ["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y", "!!bool yes"]),
        (false, ["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N", "!!bool no"]),
    ];
    for (flag, key) in Flag::ALL {
        for (on, written) in spellings.iter().flat_map(|(on, all)| all.map(|written| (*on, written))) {
            let text = with_plugin("gang", &[&format!("{key}: {written}")]);
            let conf =
                if on && !flag.has_effect() { read(&text).conf.expect("no error") } else { good(&text) };
            assert_eq!(conf.tiers[0].plugins[0].flags.on(flag), on, "{key}: {written}");
        }
    }
}

#[test]
fn numbers_are_read_as_volcanos_parser_reads_them() {
    for (written, number) in
        [("010", 8), ("0x10", 16), ("1_000", 1000), ("+7", 7), ("-1", -1), ("!!int 5", 5)]
    {
        let conf = good(&with_plugin("binpack", &[&format!("arguments: {{binpack.weight: {written}}}")]));
        assert_eq!(conf.tiers[0].plugins[0].args.int("binpack.weight", 0), number, "{written}");
    }
    for (written, number) in
        [("2", 2.0), ("1.5", 1.5), (".5e1", 5.0), ("1e1", 10.0), ("1_0.5", 10.5), ("08", 8.0)]
    {
        let conf =
            good(&with_plugin("overcommit", &[&format!("arguments: {{overcommit-factor: {written}}}")]));
        assert_eq!(conf.tiers[0].plugins[0].args.float("overcommit-factor", 0.0), number, "{written}");
    }
}

#[test]
fn text_stays_text_where_text_is_asked_for() {
    let conf = good(
        &(with_plugin("gang", &[]) + "metrics: {elasticsearch.password: 010, elasticsearch.index: yes}\n"),
    );
    assert_eq!(
        (conf.metrics["elasticsearch.password"].as_str(), conf.metrics["elasticsearch.index"].as_str()),
        ("010", "yes")
    );
    let conf = good(&with_plugin("usage", &["arguments: {usage.title: !!str 5}"]));
    assert_eq!(conf.tiers[0].plugins[0].args.text("usage.title"), Some("5"));
}

#[test]
fn anchors_aliases_and_merge_keys_are_read() {
    let conf = good(
        "actions: allocate, backfill
tiers:
- plugins:
  - &base
    name: gang
    enableJobOrder: false
    enableJobReady: false
  - <<: *base
    name: drf
    enableJobReady: true
  - name: binpack
    arguments: &weights {binpack.weight: 3, binpack.resources: [a]}
- plugins:
  - name: proportion
    <<: [{enableVictim: no, enabledVictim: no}, {enabledVictim: yes}]
"
        .replace("enableVictim: no, ", "")
        .as_str(),
    );
    let [gang, drf, binpack] = conf.tiers[0].plugins.as_slice() else { panic!("three plugins") };
    assert!(!gang.flags.on(Flag::JobReady) && drf.flags.on(Flag::JobReady), "what is written out wins");
    assert!(!drf.flags.on(Flag::JobOrder) && drf.name == "drf");
    assert_eq!(binpack.args.int("binpack.weight", 1), 3);
    assert!(!conf.tiers[1].plugins[0].flags.on(Flag::Victim), "the first of a list wins");
}

#[test]
fn a_problem_behind_an_alias_is_reported_once() {
    let text = "actions: allocate, backfill
tiers:
- plugins:
  - name: binpack
    arguments: &a {binpack.weight: x}
- plugins:
  - {name: binpack, arguments: *a}
";
    let found = lines(&read(text));
    assert_eq!(found.iter().filter(|line| line.contains("binpack.weight")).count(), 1, "{found:?}");
}

#[test]
fn block_and_flow_style_mean_the_same() {
    let block = good(&with_plugin("gang", &["enableJobOrder: false"]));
    for text in [
        r#"{"actions": "allocate, backfill", "tiers": [{"plugins": [{"name": "gang", "enableJobOrder": false}]}]}"#,
        "\u{feff}---\nactions: >-\n  allocate,\n  backfill\ntiers:\n  - plugins:\n      - enableJobOrder: no\n        name: 'gang'\n...\n",
        "%YAML 1.1\n---\nactions: allocate, backfill\r\ntiers:\r\n- plugins:\r\n  - {name: gang, enableJobOrder: FALSE}\r\n",
    ] {
        assert_eq!(phalanx_conf::diff(&block, &good(text), &known()), [""; 0], "{text}");
    }
}
