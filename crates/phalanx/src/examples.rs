//! Examples at the end of each command's `--help`.
use clap::Command;

/// Commands with their examples. Each is a line that can be typed as it is, with names put in.
const EXAMPLES: [(&str, &[&str]); 39] = [
    (
        "scheduler",
        &[
            "phalanx scheduler --scheduler-conf /etc/phalanx/scheduler.conf",
            "phalanx scheduler --controllers --kubeconfig ~/.kube/config --leader-elect=false",
        ],
    ),
    ("controllers", &["phalanx controllers --kubeconfig ~/.kube/config"]),
    (
        "simulate",
        &[
            "phalanx simulate -f config/examples/training-gang",
            "phalanx simulate -f cluster.json --scheduler-conf my.conf -o html > report.html",
            "phalanx simulate -f cluster.json --scheduler-conf today.conf --scheduler-conf tomorrow.conf",
            "phalanx simulate -f cluster.json --trace trace.jsonl -o html > report.html",
            "phalanx simulate -f cluster.json --trace trace.jsonl --scheduler-conf a.conf --scheduler-conf b.conf --seeds 5",
        ],
    ),
    (
        "explain",
        &[
            "phalanx explain podgroup big -n demo --live",
            "phalanx explain podgroup big -n demo -f config/examples/too-small",
            "phalanx explain job train -n ml -f cluster.json --scheduler-conf my.conf",
        ],
    ),
    (
        "whatif",
        &[
            "phalanx whatif --with job.yaml",
            "phalanx whatif --drain gpu-7",
            "phalanx whatif -f config/examples/too-small --add-nodes node-1=2",
            "phalanx whatif --scheduler-conf today.conf --new-conf tomorrow.conf",
            "phalanx whatif --with job.yaml --live",
        ],
    ),
    ("top", &["phalanx top", "phalanx top -n ml"]),
    (
        "trace openb",
        &["phalanx trace openb --nodes nodes.csv --pods pods.csv --cluster cluster.json > trace.jsonl"],
    ),
    ("trace generate", &["phalanx trace generate --seed 7 --jobs 1000 > trace.jsonl"]),
    ("trace journal", &["phalanx trace journal journal.json > trace.jsonl"]),
    ("trace pods", &["phalanx trace pods trace.jsonl --most 10"]),
    (
        "capture",
        &[
            "phalanx capture > cluster.json",
            "phalanx capture --replace-names > cluster.json",
            "phalanx capture --live > capture.json",
        ],
    ),
    ("replay", &["phalanx replay journal.json", "phalanx replay journal.json -o json > cycles.json"]),
    ("conf check", &["phalanx conf check my.conf", "phalanx conf check --strict my.conf"]),
    (
        "conf diff",
        &["phalanx conf diff today.conf tomorrow.conf", "phalanx conf diff today.conf tomorrow.conf --live"],
    ),
    ("conf show", &["phalanx conf show my.conf", "phalanx conf show --all"]),
    ("conf reference", &["phalanx conf reference > scheduler-conf.md"]),
    ("crds", &["phalanx crds --dir crds"]),
    (
        "job run",
        &[
            "phalanx job run --name train --replicas 4 --min 4 --requests cpu=8,memory=32Gi",
            "phalanx job run -f job.yaml",
        ],
    ),
    ("job list", &["phalanx job list --all-namespaces --queue research", "phalanx job list -o wide"]),
    ("job view", &["phalanx job view --name train", "phalanx job view --name train -o yaml"]),
    ("job suspend", &["phalanx job suspend --name train"]),
    ("job resume", &["phalanx job resume --name train"]),
    ("job delete", &["phalanx job delete --name train"]),
    (
        "queue create",
        &["phalanx queue create --name research --weight 4 --capability cpu=100,nvidia.com/gpu=16"],
    ),
    ("queue delete", &["phalanx queue delete --name research"]),
    (
        "queue operate",
        &[
            "phalanx queue operate --name research --action close",
            "phalanx queue operate --name research --action update --weight 4",
        ],
    ),
    ("queue list", &["phalanx queue list", "phalanx queue list -o wide"]),
    ("queue get", &["phalanx queue get --name research -o json"]),
    ("pod list", &["phalanx pod list --job train", "phalanx pod list --queue research --all-namespaces"]),
    ("jobflow create", &["phalanx jobflow create -f flow.yaml"]),
    ("jobflow list", &["phalanx jobflow list --all-namespaces"]),
    ("jobflow get", &["phalanx jobflow get --name nightly"]),
    ("jobflow delete", &["phalanx jobflow delete --name nightly"]),
    ("jobflow describe", &["phalanx jobflow describe --name nightly -o json"]),
    ("jobtemplate create", &["phalanx jobtemplate create -f template.yaml"]),
    ("jobtemplate list", &["phalanx jobtemplate list"]),
    ("jobtemplate get", &["phalanx jobtemplate get --name step"]),
    ("jobtemplate delete", &["phalanx jobtemplate delete --name step"]),
    ("jobtemplate describe", &["phalanx jobtemplate describe --name step"]),
];

/// The command and those below it with their examples.
pub(crate) fn added(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(&name, |below| of(below, &name)))
}

/// A command of this path with its examples.
fn of(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(&name, |below| of(below, &path))
    });
    match EXAMPLES.iter().find(|(of, _)| *of == path) {
        Some((_, lines)) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use clap::CommandFactory;

    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        let below: Vec<&Command> = command.get_subcommands().collect();
        if below.is_empty() {
            found.push(path.trim().to_owned());
        }
        for command in below {
            leaves(command, &format!("{path} {}", command.get_name()), found);
        }
    }

    #[test]
    fn every_command_has_examples_that_its_flags_take() {
        let top = added(crate::Cli::command());
        let mut commands = Vec::new();
        leaves(&top, "", &mut commands);
        commands.retain(|command| !["version", "completion"].contains(&command.as_str()));
        for command in &commands {
            let (_, lines) =
                EXAMPLES.iter().find(|(of, _)| of == command).unwrap_or_else(|| panic!("{command}"));
            for line in *lines {
                assert!(line.starts_with(&format!("phalanx {command}")), "{line}");
                let words = line.split(" > ").next().unwrap().split_whitespace();
                top.clone().try_get_matches_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
        assert_eq!(commands.len(), EXAMPLES.len(), "no examples of commands that do not exist");
    }

    /// All Markdown files of a folder and those below, but for what is built there.
    fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !["target", ".git"].iter().any(|name| path.ends_with(name)) {
                pages(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }

    /// The calls of `phalanx` in the blocks of commands of a page, with their words; but for those with words that other
    /// commands make. A variable is a number.
    fn calls(page: &str) -> Vec<Vec<String>> {
        let blocks = page.split("\n```").skip(1).step_by(2);
        let blocks = blocks.filter(|block| block.starts_with("sh\n") || block.starts_with("console\n"));
        let text: String = blocks.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
        let lines = text.lines().flat_map(|line| line.trim_start_matches("$ ").split(" | "));
        let lines = lines.flat_map(|line| line.split(" && "));
        let lines = lines.filter(|line| line.trim().starts_with("phalanx ") && !line.contains("$("));
        let words = |line: &str| shlex::split(line).unwrap_or_else(|| panic!("{line}"));
        let up_to_redirection = |words: Vec<String>| {
            let words = words.into_iter().take_while(|word| ![">", "2>", "<", "&"].contains(&word.as_str()));
            words.map(|word| if word.starts_with('$') { "1".to_owned() } else { word })
        };
        lines.map(|line| up_to_redirection(words(line)).collect()).collect()
    }

    #[test]
    fn commands_in_the_documentation_are_ones_that_there_are() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (top, mut found, mut count) = (added(crate::Cli::command()), Vec::new(), 0);
        pages(&repository, &mut found);
        for page in found {
            for call in calls(&std::fs::read_to_string(&page).unwrap()) {
                let parsed = top.clone().try_get_matches_from(&call);
                let said = parsed.err().filter(|error| error.exit_code() != 0);
                assert!(said.is_none(), "{}: {}: {}", page.display(), call.join(" "), said.unwrap());
                count += 1;
            }
        }
        assert!(count >= 60, "{count} commands");
    }
}
