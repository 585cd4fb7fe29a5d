//! deny.toml: the part of cargo-deny's format that needs no network, and what breaks it.
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use crate::packages::{Metadata, Package};

/// crates.io as Cargo.lock names it.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// deny.toml. A key that is not known here is refused: nobody should rely on a rule that is not checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Which packages are looked at.
    pub graph: Graph,
    /// Licences.
    pub licenses: Licenses,
    /// Where packages come from.
    pub sources: Sources,
    /// Packages in several versions.
    pub bans: Bans,
}

/// Which packages are looked at.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Target triples.
    pub targets: Vec<String>,
}

/// Licences.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licenses {
    /// The version of the format.
    pub version: Two,
    /// Identifiers of SPDX, with their exception where there is one; whatever is not listed is refused.
    pub allow: Vec<String>,
}

/// The number 2.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u8")]
pub struct Two;

impl TryFrom<u8> for Two {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        (number == 2).then_some(Self).ok_or("expected 2")
    }
}

/// The one level that is checked here.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is an error.
    Deny,
}

/// The word `true`: the other choice is not known here.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "bool")]
pub struct Yes;

impl TryFrom<bool> for Yes {
    type Error = &'static str;

    fn try_from(yes: bool) -> Result<Self, Self::Error> {
        yes.then_some(Self).ok_or("expected true")
    }
}

/// Where packages come from: crates.io or the workspace.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sources {
    /// Other registries.
    pub unknown_registry: Level,
    /// Repositories.
    pub unknown_git: Level,
}

/// Packages in several versions, and requirements of any version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bans {
    /// Packages in several versions.
    pub multiple_versions: Level,
    /// Those of tests count.
    pub multiple_versions_include_dev: Yes,
    /// Requirements of any version (`*`).
    pub wildcards: Level,
    /// Packages of the workspace need none.
    pub allow_wildcard_paths: Yes,
    /// Versions that do not count.
    pub skip: Vec<Skip>,
}

/// A version that does not count as another one of its package.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// `NAME@VERSION`
    #[serde(rename = "crate")]
    pub package: String,
    /// Who needs it.
    pub reason: String,
}

impl Policy {
    /// Reads the text of a deny.toml.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// What breaks the policy, a line each; and entries of the policy that nothing needs any more.
    pub fn problems(&self, metadata: &Metadata) -> Vec<String> {
        let packages = &metadata.packages;
        let mut problems = self.licenses.problems(packages);
        problems.extend(packages.iter().filter_map(source));
        problems.extend(packages.iter().flat_map(wildcards));
        problems.extend(self.bans.duplicates(packages));
        problems
    }
}

impl Licenses {
    fn problems(&self, packages: &[Package]) -> Vec<String> {
        let (mut allowed, mut problems) = (Vec::new(), Vec::new());
        for text in &self.allow {
            match Licensee::parse(text) {
                Ok(licensee) => allowed.push((text, licensee)),
                Err(error) => {
                    problems.push(format!(
                        "licenses.allow: found {text:?}, expected a licence of SPDX: {}",
                        error.reason
                    ));
                }
            }
        }
        let mut used = BTreeSet::new();
        for package in packages {
            match expression(package) {
                Err(problem) => problems.push(problem),
                Ok(expression) => {
                    let permits = |licensee: &Licensee, term: &spdx::LicenseReq| licensee.satisfies(term);
                    for term in expression.requirements() {
                        let by = allowed.iter().filter(|(_, licensee)| permits(licensee, &term.req));
                        used.extend(by.map(|(text, _)| *text));
                    }
                    if !expression
                        .evaluate(|term| allowed.iter().any(|(_, licensee)| permits(licensee, term)))
                    {
                        problems.push(format!(
                            "{}: found licence {expression}, expected one that licenses.allow lists",
                            package.reference()
                        ));
                    }
                }
            }
        }
        let unused = allowed.iter().filter(|(text, _)| !used.contains(text));
        problems
            .extend(unused.map(|(text, _)| format!("licenses.allow: {text}: no package has it any more")));
        problems
    }
}

/// The licence of a package; older ones write a slash for `OR`.
fn expression(package: &Package) -> Result<Expression, String> {
    let text = package.license.as_deref();
    let text = text.ok_or_else(|| {
        format!("{}: found no licence, expected an expression of SPDX", package.reference())
    })?;
    let read = Expression::parse_mode(text, ParseMode::LAX);
    read.map_err(|error| {
        format!(
            "{}: found licence {text:?}, expected an expression of SPDX: {}",
            package.reference(),
            error.reason
        )
    })
}

fn source(package: &Package) -> Option<String> {
    let source = package.source.as_ref()?;
    let problem =
        || format!("{}: found source {source}, expected crates.io or the workspace", package.reference());
    (source != CRATES_IO).then(problem)
}

/// Requirements of any version, but for those of packages of the workspace by their folder.
fn wildcards(package: &Package) -> impl Iterator<Item = String> {
    let any = package.dependencies.iter().filter(|dep| dep.req == "*" && dep.path.is_none());
    any.map(|dep| format!("{}: found {} of any version, expected a version", package.reference(), dep.name))
}

impl Bans {
    fn duplicates(&self, packages: &[Package]) -> Vec<String> {
        let mut unmet: BTreeSet<&str> = self.skip.iter().map(|skip| skip.package.as_str()).collect();
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages {
            if !unmet.remove(&*package.reference()) {
                versions.entry(&package.name).or_default().push(&package.version);
            }
        }
        let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
        let several = several.map(|(name, versions)| {
            format!("{name}: found versions {}, expected one, or others in bans.skip", versions.join(" and "))
        });
        let unmet = unmet.iter().map(|skip| format!("bans.skip: {skip}: nothing is built from it any more"));
        several.chain(unmet).collect()
    }
}
