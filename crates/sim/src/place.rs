//! Places in the input.
use phalanx_cache::Invalid;

use crate::bad_input::BadInput;
use crate::document::Document;

/// A place in a document: `path` is the prefix of the fields of the object.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) document: Document,
    path: String,
}

impl Place {
    /// The whole document, or the item of its list.
    pub(crate) fn top(document: Document) -> Self {
        let path = document.item.map(|item| format!("items[{item}].")).unwrap_or_default();
        Self { document, path }
    }

    pub(crate) fn inner(&self, path: &str) -> Self {
        Self { document: self.document.clone(), path: format!("{}{path}", self.path) }
    }

    pub(crate) fn fault(&self, label: &str, field: &str, problem: impl Into<String>) -> BadInput {
        let field = format!("{}{field}", self.path).trim_end_matches('.').to_owned();
        let fault = self.document.fault(&field, problem);
        BadInput { object: label.to_owned(), field, ..fault }
    }

    pub(crate) fn invalid(&self, label: &str, invalid: Invalid) -> BadInput {
        self.fault(label, &invalid.field, invalid.problem)
    }
}
