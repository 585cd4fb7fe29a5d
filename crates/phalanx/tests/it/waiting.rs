//! Waiting jobs: `explain` names why each waits and what would let it run. Each change that it names, applied to the
//! manifests, lets it run, and a smaller one does not: with a number or an amount that is one less, or without one of
//! the parts of the change.
//!
//! The scenarios whose `expect.yaml` has the key `explain` ([`crate::scenarios::Explain`]).
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use phalanx_explain::{Change, Question, Remedies, Subject};
use phalanx_framework::conf::Conf;
use phalanx_sim::{Manifests, Options, ReadOptions, Simulation, stopped_clock};

use crate::run::{folder, phalanx_in};
use crate::scenarios::{Explain, cases, explain_of, name_of};

/// What the head of the lines with changes begins with: "It would run", "It would be admitted", "More of these would
/// run".
const HEADS: [&str; 2] = ["\nIt would ", "\nMore of these would "];

/// What is wrong with the answer of `explain`.
fn wrong_answer(case: &Path, explain: &Explain) -> Vec<String> {
    let mut args = vec!["explain"];
    args.extend(explain.of.split_whitespace());
    args.extend(["-f", "cluster.yaml"]);
    let conf = case.join("scheduler.conf").exists();
    args.extend(["--scheduler-conf", "scheduler.conf"].iter().filter(|_| conf));
    let ran = phalanx_in(case, &args, "");
    let (told, changes) =
        HEADS.iter().find_map(|head| ran.stdout.split_once(head)).unwrap_or((&ran.stdout, ""));
    let changes: Vec<&str> = changes.lines().skip(1).map(str::trim).collect();
    let missing = explain.says.iter().filter(|text| !told.contains(text.as_str()));
    let mut wrong: Vec<String> = missing.map(|text| format!("  does not say {text:?}")).collect();
    if changes != explain.remedies {
        wrong.push(format!("  changes: expected {:?}, found {changes:?}", explain.remedies));
    }
    if !wrong.is_empty() {
        wrong.push(format!("{}{}", ran.stdout, ran.stderr));
    }
    wrong
}

/// A scenario as the library runs it.
struct Case {
    conf: Conf,
    manifests: Manifests,
    question: Question,
}

impl Case {
    fn of(case: &Path, explain: &Explain) -> Self {
        let text = |file: &str| fs::read_to_string(case.join(file));
        let conf = text("scheduler.conf").unwrap_or_else(|_| phalanx_conf::builtin_default().to_owned());
        let cluster = [("cluster.yaml".to_owned(), text("cluster.yaml").unwrap())];
        let (kind, name) = explain.of.split_once(' ').unwrap();
        Self {
            conf: phalanx_conf::parse(&conf, &phalanx_conf::Known::builtin()).conf.unwrap(),
            manifests: phalanx_sim::read(&cluster, &ReadOptions::default()).unwrap(),
            question: Question {
                subject: Subject::named(kind),
                namespace: "default".to_owned(),
                name: name.to_owned(),
            },
        }
    }

    /// What `explain` finds, with the changes themselves.
    fn remedies(&self) -> Remedies {
        let mut simulation = Simulation::new(self.manifests.clone(), self.conf.clone(), &Options::default());
        simulation.run_cycles(2, &mut stopped_clock());
        let mut answer = simulation.explain(&self.question).unwrap();
        answer.jobs.pop().map(|job| job.remedies).or(answer.pod.map(|pod| pod.remedies)).unwrap()
    }

    /// Whether what waits gets nodes for all pods that it needs, once the change is applied and virtual time has run
    /// on.
    fn runs_with(&self, change: &Change) -> bool {
        let (mut conf, mut manifests) = (self.conf.clone(), self.manifests.clone());
        change.conf.iter().for_each(|addition| addition.add_to(&mut conf));
        manifests.apply(change);
        let mut simulation = Simulation::new(manifests, conf, &Options::default());
        // One that does not come to rest is looked at as it is.
        let _ = simulation.run_to_rest(&mut stopped_clock());
        let report = simulation.report();
        let name = format!("default/{}", self.question.name);
        let started =
            |name: &str| report.pod_groups.get(name).is_some_and(|it| it.placed() >= it.min_member.max(1));
        let bound = report.bindings.contains_key(&name);
        bound || started(&name) || started(&format!("{name}-job-{}", self.question.name))
    }
}

/// What is wrong with the changes that `explain` finds: with one of them the job does not run, or it runs with a smaller
/// one, or without any though `explain` does not say so.
fn wrong_changes(case: &Path, explain: &Explain) -> Vec<String> {
    let case = Case::of(case, explain);
    let mut wrong = Vec::new();
    let needs_none = explain.says.iter().any(|text| text.contains("no change is needed"));
    if case.runs_with(&Change::default()) != needs_none {
        wrong.push(format!("  without any change it runs: {}", !needs_none));
    }
    for remedy in case.remedies().found {
        if !case.runs_with(&remedy.change) {
            wrong.push(format!("  it does not run {remedy}: {:#?}", remedy.change));
        }
        for smaller in remedy.smaller.iter().filter(|smaller| case.runs_with(smaller)) {
            wrong.push(format!("  less is enough than {remedy}: {smaller:#?}"));
        }
    }
    wrong
}

#[test]
fn explain_names_the_cause_and_changes_with_which_it_runs_and_not_with_less() {
    let explained: Vec<_> = cases().into_iter().filter_map(|case| Some((explain_of(&case)?, case))).collect();
    assert!(explained.len() >= 71, "{} scenarios with the key explain", explained.len());
    let (cases, wrong) = (Mutex::new(explained), Mutex::new(Vec::new()));
    let next = || cases.lock().unwrap().pop();
    let work = || {
        while let Some((explain, case)) = next() {
            let found = [wrong_answer(&case, &explain), wrong_changes(&case, &explain)].concat();
            if !found.is_empty() {
                wrong.lock().unwrap().push(format!("{}\n{}", name_of(&case), found.join("\n")));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{} scenarios differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_pod_that_cannot_be_read_is_told_with_its_place_and_what_was_expected() {
    let pod = crate::run::pod("p", 1, "", "").replace("cpu: 1", "cpu: 1x");
    let folder = folder(&[("m.yaml", &pod)]);
    let ran = phalanx_in(folder.path(), &["explain", "pod", "p", "-f", "m.yaml"], "");
    let expected = "Pod default/p: spec.containers[0].resources.requests.cpu: quantity \"1x\": unknown suffix \"x\", expected none";
    assert!(
        ran.code == 2 && ran.stderr.starts_with("error: m.yaml:5:") && ran.stderr.contains(expected),
        "{ran:?}"
    );
}
