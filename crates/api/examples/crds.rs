//! Writes the CustomResourceDefinitions into the directory given: `cargo run -p phalanx-api
//! --example crds -- crds`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "crds".to_owned()));
    std::fs::create_dir_all(&directory)?;
    phalanx_api::crds().into_iter().try_for_each(|(file, text)| std::fs::write(directory.join(file), text))
}
