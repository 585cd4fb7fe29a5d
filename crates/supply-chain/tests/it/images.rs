//! Base images of the container image.
use std::fs;

use crate::root;

#[test]
fn base_images_are_pinned_by_digest() {
    let text = fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
    let images: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("FROM ")).collect();
    assert_eq!(images.len(), 2, "{images:?}");
    for image in images {
        let digest = image.split_whitespace().next().and_then(|image| image.split_once("@sha256:"));
        let hex = digest.map(|(_, hex)| hex).unwrap_or_default();
        assert!(hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{image}");
    }
}

/// A newer compiler would build other code than the tests of this commit ran.
#[test]
fn the_image_is_built_by_the_compiler_that_cargo_toml_names() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let version = version.trim_matches('"');
    let text = fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
    assert!(text.contains(&format!("FROM rust:{version}.")), "{text}");
}
