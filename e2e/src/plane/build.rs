//! Builds Go programs, each once for each state of its sources.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

/// The path of the control plane's program, built first when it is missing or its sources have changed.
///
/// A first build takes minutes and needs Go; `go build` reports on standard error. The result is kept
/// under cargo's target directory. Processes that ask at the same time wait for one build.
pub fn binary() -> Result<PathBuf> {
    program("plane")
}

/// The same for the program of a folder beside this crate's `src`.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let cache = target_dir().join(name);
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    let _lock = lock(&cache.join("lock"))?;
    let binary = cache.join(name);
    let stamp = binary.with_extension("stamp");
    let wanted = fingerprint(&source_dir(name))?;
    let fresh = fs::read_to_string(&stamp).is_ok_and(|built| built == wanted);
    if !fresh || !binary.is_file() {
        build(&source_dir(name), &binary)?;
        fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))?;
    }
    Ok(binary)
}

fn source_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
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
    eprintln!("building {} for tests; the first time this takes minutes", sources.display());
    // Under another name first: the old program may be running, and a broken build must not replace it.
    let fresh = binary.with_extension("new");
    let version = kubernetes_version(&sources.join("go.mod"))?;
    let flags = version.map_or(Ok("-s -w".to_owned()), |version| version_flags(&version))?;
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-ldflags", &flags, "-o"]).arg(&fresh).arg(".");
    go.current_dir(sources).env("CGO_ENABLED", "0");
    match go.status() {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("`go build` in {} failed ({status}), see its output above", sources.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("Go is needed to build {}, and `go` is not on the PATH", sources.display())
        }
        Err(error) => return Err(error).context("running `go build`"),
    }
    fs::rename(&fresh, binary).with_context(|| format!("replacing {}", binary.display()))
}

/// `None` for a program without Kubernetes' components in it.
fn kubernetes_version(go_mod: &Path) -> Result<Option<String>> {
    let text = fs::read_to_string(go_mod).with_context(|| format!("reading {}", go_mod.display()))?;
    let version = text.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    Ok(version.map(str::to_owned))
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
        let version = kubernetes_version(&source_dir("plane").join("go.mod")).unwrap().unwrap();
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
