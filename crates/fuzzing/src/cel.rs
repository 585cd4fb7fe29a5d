//! Expressions that select devices.
use phalanx_cel::{Attribute, Budget, Device, Expression};
use phalanx_resource::Quantity;

/// The steps of one expression: those of one device (`docs/differences.md`).
const STEPS: u64 = 100_000;

struct Gpu;

impl Device for Gpu {
    fn driver(&self) -> &'static str {
        "gpu.example.com"
    }

    fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>> {
        let value = match name {
            "model" => Attribute::Text("A100"),
            "index" => Attribute::Int(3),
            "healthy" => Attribute::Bool(true),
            "version" => Attribute::Version("1.2.3"),
            _ => return None,
        };
        (domain == "gpu.example.com").then_some(value)
    }

    fn capacity(&self, domain: &str, name: &str) -> Option<Quantity> {
        (domain == "gpu.example.com" && name == "memory").then(|| "80Gi".parse().ok()).flatten()
    }

    fn attributes(&self) -> Vec<(&str, &str)> {
        ["healthy", "index", "model", "version"].map(|name| ("gpu.example.com", name)).into()
    }

    fn capacities(&self) -> Vec<(&str, &str)> {
        vec![("gpu.example.com", "memory")]
    }
}

/// An expression is read, compared, shown, evaluated and dropped.
pub fn cel(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(read) = Expression::parse(&text, &mut Budget::new(STEPS)) {
        assert!(read == read.clone());
        drop(format!("{read:?}"));
        let once = read.selects(&Gpu, &mut Budget::new(STEPS));
        assert_eq!(once, read.selects(&Gpu, &mut Budget::new(STEPS)), "equal devices get equal answers");
    }
}
