//! The report of a trace and a comparison, as a reader sees them in a browser.
use phalanx_conf::Known;
use phalanx_framework::conf::Conf;
use phalanx_sim::trace::{Trace, TraceReport, play};
use phalanx_sim::{Comparison, Manifests, Options, ReadOptions, Simulation, read, stopped_clock};
use phalanx_testkit::browser::Browser;
use serde_json::json;

const SPREAD: &str = include_str!("../../../../config/helm-default.yaml");
const PREEMPT: &str = include_str!("../../../../config/preempt-and-reclaim.yaml");
/// What a reader of a pull request types.
const NAMES: [&str; 2] = ["production/scheduler-before.conf", "production/scheduler-after.conf"];

fn conf(text: &str) -> Conf {
    phalanx_conf::parse(text, &Known::builtin()).conf.unwrap()
}

/// Four nodes of 8 GPUs, and a queue.
fn cluster(more: &str) -> Manifests {
    let node = |at: u32| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: gpu-node-{at}}}\nstatus: {{allocatable: {{cpu: 64, memory: 256Gi, pods: 110, nvidia.com/gpu: 8}}}}\n---\n"
        )
    };
    let nodes: String = (0..4).map(node).collect();
    let queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: research}\nspec: {weight: 1}\n---\n";
    read(&[("cluster.yaml".to_owned(), nodes + queue + more)], &ReadOptions::default()).unwrap()
}

/// Jobs of low and high priority that need the whole cluster in turn, and one that never fits.
fn trace_page() -> String {
    let jobs = (0..40).map(|at| {
        let (priority, gpus) = if at % 3 == 2 { (100, 8) } else { (1, 4) };
        let requests = json!({"cpu": "8", "nvidia.com/gpu": if at == 7 { 9 } else { gpus }.to_string()});
        json!({"name": format!("job-{at}"), "arrival": at * 300, "duration": 7_200, "size": 1 + at % 4, "queue": "research",
            "priority": priority, "requests": requests})
        .to_string()
            + "\n"
    });
    let text: String = jobs.collect();
    let trace = Trace::read("jobs.jsonl", &text, &ReadOptions::default()).unwrap();
    let run = |(name, text)| {
        let (options, manifests) = (Options::default(), cluster(""));
        vec![play(&trace, manifests, (name, conf(text)), &options, None, &mut |_| {}).unwrap()]
    };
    TraceReport::of(NAMES.into_iter().zip([SPREAD, PREEMPT]).map(run).collect()).to_html()
}

/// A gang of higher priority, which one configuration lets preempt.
fn comparison_page() -> String {
    let class =
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n---\n";
    let gang = |name: &str, pods: u32, spec: &str, pod: &dyn Fn(u32) -> &'static str| {
        let group = format!(
            "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {{name: {name}}}\nspec: {{minMember: 1, queue: research{spec}}}\n---\n"
        );
        let member = |at: u32| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}-{at}, annotations: {{scheduling.k8s.io/group-name: {name}}}}}\n\
                 spec: {{schedulerName: volcano{}, containers: [{{name: main, resources: {{requests: {{nvidia.com/gpu: 8}}, limits: {{nvidia.com/gpu: 8}}}}}}]}}\n---\n",
                pod(at)
            )
        };
        group + &(0..pods).map(member).collect::<String>()
    };
    let nodes = [
        ", nodeName: gpu-node-0",
        ", nodeName: gpu-node-1",
        ", nodeName: gpu-node-2",
        ", nodeName: gpu-node-3",
    ];
    let low = gang("data-preparation-of-the-night", 4, "", &|at| nodes[at as usize]);
    let high = gang(
        "language-model-of-the-day",
        2,
        ", priorityClassName: high",
        &|_| ", priority: 100, priorityClassName: high",
    );
    let report = |text| {
        let manifests = cluster(&(class.to_owned() + &low + &high));
        let mut simulation = Simulation::new(manifests, conf(text), &Options::default());
        simulation.run_to_rest(&mut stopped_clock()).unwrap();
        simulation.report()
    };
    Comparison::of(&report(SPREAD), &report(PREEMPT)).to_html(NAMES)
}

/// Opens a page in windows of a laptop and of a phone, light and dark; all of each table is seen.
fn fits(page: &str, sections: &[&str]) {
    let Some(mut browser) = Browser::start() else { return };
    for (width, dark) in [(1200, false), (1200, true), (360, false)] {
        browser.look(width, 800, dark);
        let _page = browser.show(page, "");
        let found = browser.eval("document.documentElement.scrollWidth");
        assert!(found.as_u64().unwrap() <= u64::from(width), "{found} of {width} pixels");
        let cut = "[...document.querySelectorAll('.scroll, td, figcaption, .legend')].filter((it) => \
                   it.scrollWidth > it.clientWidth + 1).map((it) => it.innerText.slice(0, 60))";
        assert_eq!(browser.eval(cut), json!([]), "what is cut off at {width} pixels");
        for section in sections {
            assert!(!browser.seen(section).is_empty(), "{section}");
        }
    }
    browser.eval("document.querySelector('nav a:last-of-type').click()");
    assert!(browser.text("location.hash").starts_with('#'));
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn the_report_of_a_trace_fits_a_laptop_and_a_phone() {
    let page = trace_page();
    fits(&page, &["runs", "never", "use", "waiting", "queues", "fragments", "evictions"]);
}

#[test]
fn a_comparison_fits_a_laptop_and_a_phone() {
    let page = comparison_page();
    fits(&page, &["differs", "groups", "evictions", "runs"]);
}
