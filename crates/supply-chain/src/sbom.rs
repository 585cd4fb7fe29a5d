//! A software bill of materials in the format CycloneDX 1.5. The same Cargo.lock gives the same bytes: it has neither a
//! time nor a serial number. Written here, because the library of cargo-cyclonedx builds serde_json with the order of
//! keys kept, for the whole workspace.
use anyhow::{Context as _, Result};
use serde::Serialize;
use spdx::Expression;

use crate::lock::Checksums;
use crate::packages::{Metadata, Package, built_from};

/// Source: the JSON schema of CycloneDX 1.5; what is left out is optional.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bom {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: About,
    components: Vec<Component>,
    dependencies: Vec<Needs>,
}

#[derive(Debug, Serialize)]
struct About {
    component: Component,
}

#[derive(Debug, Serialize)]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref")]
    reference: String,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
    licenses: Vec<Licence>,
    /// A package URL, of those of crates.io.
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
}

#[derive(Debug, Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

#[derive(Debug, Serialize)]
struct Licence {
    expression: String,
}

/// What a package depends on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Needs {
    #[serde(rename = "ref")]
    reference: String,
    depends_on: Vec<String>,
}

/// All packages from which the package of this name is built, with version, licence, checksum and what they depend on.
pub fn sbom(metadata: &Metadata, checksums: &Checksums, name: &str) -> Result<Bom> {
    let (mut program, mut components, mut dependencies) = (None, Vec::new(), Vec::new());
    for (package, needed) in built_from(metadata, name)? {
        let depends_on = needed.into_iter().map(Package::reference).collect();
        dependencies.push(Needs { reference: package.reference(), depends_on });
        let component = component(package, checksums)?;
        if package.name == name {
            program = Some(Component { kind: "application", ..component });
        } else {
            components.push(component);
        }
    }
    let component = program.with_context(|| format!("found no package {name}"))?;
    Ok(Bom {
        bom_format: "CycloneDX",
        spec_version: "1.5",
        version: 1,
        metadata: About { component },
        components,
        dependencies,
    })
}

fn component(package: &Package, checksums: &Checksums) -> Result<Component> {
    let Package { name, version, .. } = package;
    let licence = package.license.as_deref().with_context(|| format!("{name}: found no licence"))?;
    // Older packages write a slash for `OR`.
    let canonical =
        Expression::canonicalize(licence).with_context(|| format!("{name}: licence {licence}"))?;
    let (mut hashes, mut purl) = (Vec::new(), None);
    if package.source.is_some() {
        let content = checksums.get(name, version);
        let content = content.with_context(|| format!("Cargo.lock: {name}: found no checksum"))?.to_owned();
        hashes.push(Hash { alg: "SHA-256", content });
        // Of what versions may hold, only the plus sign has another meaning in a URL.
        purl = Some(format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")));
    }
    Ok(Component {
        kind: "library",
        reference: package.reference(),
        name: name.clone(),
        version: version.clone(),
        description: package.description.clone().map(|text| text.trim().to_owned()),
        hashes,
        licenses: vec![Licence { expression: canonical.unwrap_or_else(|| licence.to_owned()) }],
        purl,
    })
}
