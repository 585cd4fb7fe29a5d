//! Runs the binary on texts.
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// What a run left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// stdout of a run that ended well, as JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// stdout of a run that ended well.
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        &self.stdout
    }
}

/// The top of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs `phalanx` at the top of the repository.
pub(crate) fn phalanx(args: &[&str]) -> Ran {
    phalanx_in(&repository(), args, "")
}

/// Runs `phalanx` in a folder, with a text on standard input.
pub(crate) fn phalanx_in(folder: &Path, args: &[&str], stdin: &str) -> Ran {
    phalanx_with(folder, args, stdin, &[])
}

/// The same with variables of the environment.
pub(crate) fn phalanx_with(folder: &Path, args: &[&str], stdin: &str, environment: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(args).current_dir(folder).envs(environment.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // A run that fails early need not read its input.
    let _ = pipe.write_all(stdin.as_bytes());
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A folder with files.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// `simulate -o json` on one manifest, with more flags.
pub(crate) fn simulate(manifest: &str, flags: &[&str]) -> Value {
    let folder = folder(&[("m.yaml", manifest)]);
    let args = [&["simulate", "-f", "m.yaml", "-o", "json"], flags].concat();
    phalanx_in(folder.path(), &args, "").json()
}

/// A node of so many CPUs.
pub(crate) fn node(name: &str, cpu: u32) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n\
         status: {{allocatable: {{cpu: {cpu}, memory: 64Gi, pods: 110}}}}\n"
    )
}

/// A PodGroup in the queue default.
pub(crate) fn group(name: &str, min_member: u32) -> String {
    group_in(name, min_member, "default")
}

/// A PodGroup.
pub(crate) fn group_in(name: &str, min_member: u32, queue: &str) -> String {
    format!(
        "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {{name: {name}}}\n\
         spec: {{minMember: {min_member}, queue: {queue}}}\n"
    )
}

/// A queue.
pub(crate) fn queue(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

/// A pod of ours with so many CPUs, annotations (YAML flow) and further fields of the spec (YAML flow).
pub(crate) fn pod(name: &str, cpu: u32, annotations: &str, spec: &str) -> String {
    let spec = if spec.is_empty() { String::new() } else { format!("{spec}, ") };
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n\
         spec: {{{spec}schedulerName: volcano, containers: [{{name: main, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
    )
}

/// Pods `NAME-0`, `NAME-1`, ... of a PodGroup.
pub(crate) fn members(group: &str, count: u32, cpu: u32) -> String {
    let annotation = format!("scheduling.k8s.io/group-name: {group}");
    (0..count).map(|index| pod(&format!("{group}-{index}"), cpu, &annotation, "")).collect()
}

/// How many entries an object or a list has.
pub(crate) fn count(value: &Value) -> usize {
    value.as_object().map(serde_json::Map::len).or_else(|| value.as_array().map(Vec::len)).unwrap_or_default()
}
