//! A device.
use phalanx_cel::{Attribute, Device};
use phalanx_resource::Quantity;

pub(crate) struct Gpu;

impl Device for Gpu {
    fn driver(&self) -> &'static str {
        "gpu.example.com"
    }

    fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>> {
        (domain == "gpu.example.com" && name == "model").then_some(Attribute::Text("A100"))
    }

    fn capacity(&self, _: &str, _: &str) -> Option<Quantity> {
        None
    }

    fn attributes(&self) -> Vec<(&str, &str)> {
        vec![("gpu.example.com", "model")]
    }

    fn capacities(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }
}
