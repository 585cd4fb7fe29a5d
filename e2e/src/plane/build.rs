//! Builds the Go program, once for each state of its sources.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

/// The path of the Go program, built first when it is missing or its sources have changed.
///
/// A first build takes minutes and needs Go; `go build` reports on standard error. The result is kept
/// under cargo's target directory. Processes that ask at the same time wait for one build.
pub fn binary() -> Result<PathBuf> {
    let cache = target_dir().join("plane");
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    let _lock = lock(&cache.join("lock"))?;
    let binary = cache.join("plane");
    let stamp = cache.join("plane.stamp");
    let wanted = fingerprint(&source_dir())?;
    let fresh = fs::read_to_string(&stamp).is_ok_and(|built| built == wanted);
    if !fresh || !binary.is_file() {
        build(&source_dir(), &binary)?;
        fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))?;
    }
    Ok(binary)
}

fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("plane")
}

/// Absolute, as `go build` runs elsewhere; a relative setting counts from the workspace.
fn target_dir() -> PathBuf {
    let setting = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(setting)
}

/// Held until the file is closed, by a crash as well.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    file.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

fn fingerprint(sources: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for path in go_files(sources)? {
        path.file_name().hash(&mut hasher);
        fs::read(&path).with_context(|| format!("reading {}", path.display()))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn go_files(sources: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(sources).with_context(|| format!("reading {}", sources.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "go" || e == "mod" || e == "sum"));
    paths.sort();
    Ok(paths)
}

fn build(sources: &Path, binary: &Path) -> Result<()> {
    eprintln!("building the control plane for tests; the first time this takes minutes");
    // Under another name first: the old program may be running, and a broken build must not replace it.
    let fresh = binary.with_extension("new");
    let flags = version_flags(&kubernetes_version(&sources.join("go.mod"))?)?;
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-ldflags", &flags, "-o"]).arg(&fresh).arg(".");
    go.current_dir(sources).env("CGO_ENABLED", "0");
    match go.status() {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("`go build` in {} failed ({status}), see its output above", sources.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("Go is needed to build the control plane for tests, and `go` is not on the PATH")
        }
        Err(error) => return Err(error).context("running `go build`"),
    }
    fs::rename(&fresh, binary).with_context(|| format!("replacing {}", binary.display()))
}

fn kubernetes_version(go_mod: &Path) -> Result<String> {
    let text = fs::read_to_string(go_mod).with_context(|| format!("reading {}", go_mod.display()))?;
    let version = text.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    Ok(version
        .with_context(|| format!("{}: k8s.io/kubernetes is not required", go_mod.display()))?
        .to_owned())
}

/// Clients read the version from the server and refuse an empty one.
fn version_flags(version: &str) -> Result<String> {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    ensure!(!minor.is_empty(), "{version:?} is not a version of Kubernetes");
    let stamp = "k8s.io/component-base/version.git";
    Ok(format!("-s -w -X {stamp}Version={version} -X {stamp}Major={major} -X {stamp}Minor={minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_kubernetes_is_the_one_in_go_mod() {
        let version = kubernetes_version(&source_dir().join("go.mod")).unwrap();
        let flags = version_flags(&version).unwrap();
        assert!(flags.contains(&format!("gitVersion={version} ")), "{flags}");
        assert!(flags.contains("gitMajor=1 "), "{flags}");
    }

    #[test]
    fn the_fingerprint_depends_on_content_and_names_of_sources() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("main.go", "package main");
        let first = fingerprint(dir.path()).unwrap();
        write("README.md", "words");
        assert_eq!(fingerprint(dir.path()).unwrap(), first);
        write("main.go", "package main // changed");
        assert_ne!(fingerprint(dir.path()).unwrap(), first);
    }
}
