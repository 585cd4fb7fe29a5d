//! Kubernetes quantities as exact integers; amounts and ceilings.
//!
//! Text becomes a [`Quantity`], a [`Dims`] registry turns it into an integer of the dimension's
//! unit, and [`Amounts`] (what is requested, used, idle) and [`Ceilings`] (what may not be
//! exceeded) compute with those integers. A dimension that is missing means 0 in the one and
//! "no limit" in the other, hence two types.
//!
//! ```
//! use phalanx_resource::{Amounts, Dims};
//!
//! let mut dims = Dims::new();
//! let gpu = dims.intern("nvidia.com/gpu");
//! let request = Amounts::from_iter([(gpu, dims.amount(gpu, "2".parse()?))]);
//! let idle = Amounts::from_iter([(gpu, dims.amount(gpu, "1500m".parse()?))]);
//! assert!(!request.fits(&idle));
//! let missing: Vec<_> = request.short(&idle).map(|(d, by)| dims.format(d, by)).collect();
//! assert_eq!(missing, ["0.5"]);
//! # Ok::<(), phalanx_resource::QuantityError>(())
//! ```

mod amounts;
mod ceilings;
mod dims;
mod people;
mod quantity;
mod request;

pub use amounts::Amounts;
pub use ceilings::Ceilings;
pub use dims::{DimId, Dims};
pub use people::{describe_bytes, for_people};
pub use quantity::{Quantity, QuantityError, format_bytes, format_milli, format_things, format_units};
pub use request::{InitContainer, PodResources};
