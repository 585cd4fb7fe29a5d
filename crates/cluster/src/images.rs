//! Names of container images, and on how many nodes each is.
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::id::{ImageId, Slots};

/// The images that are on nodes, or that classes ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Images {
    ids: FxHashMap<Arc<str>, ImageId>,
    images: Slots<ImageId, Image>,
}

#[derive(Clone, Debug, PartialEq)]
struct Image {
    name: Arc<str>,
    nodes: u32,
    /// Containers of classes; one class counts as often as it names it.
    asked: u32,
}

impl Images {
    /// On how many nodes an image is.
    pub(super) fn nodes(&self, id: ImageId) -> u32 {
        self.images[id].nodes
    }

    /// The name of an image.
    pub(super) fn name_of(&self, id: ImageId) -> &Arc<str> {
        &self.images[id].name
    }

    /// A class asks for an image.
    pub(super) fn name(&mut self, name: &Arc<str>) -> ImageId {
        let id = self.id(name);
        self.images[id].asked += 1;
        id
    }

    /// The class is no more.
    pub(super) fn forget(&mut self, id: ImageId) {
        self.images[id].asked -= 1;
        self.drop_unused(id);
    }

    /// A node has these; sorted by id.
    pub(super) fn put(&mut self, list: &[(Arc<str>, i64)]) -> Vec<(ImageId, i64)> {
        let mut ids: Vec<(ImageId, i64)> = list.iter().map(|(name, size)| (self.id(name), *size)).collect();
        ids.sort_unstable();
        ids.dedup_by_key(|(id, _)| *id);
        for (id, _) in &ids {
            self.images[*id].nodes += 1;
        }
        ids
    }

    /// The node no longer has them.
    pub(super) fn take(&mut self, list: &[(ImageId, i64)]) {
        for (id, _) in list {
            self.images[*id].nodes -= 1;
            self.drop_unused(*id);
        }
    }

    fn id(&mut self, name: &Arc<str>) -> ImageId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.images.insert(Image { name: name.clone(), nodes: 0, asked: 0 });
        self.ids.insert(name.clone(), id);
        id
    }

    fn drop_unused(&mut self, id: ImageId) {
        let image = &self.images[id];
        if image.nodes + image.asked == 0 {
            self.ids.remove(&image.name);
            self.images.remove(id);
        }
    }

    /// Images with the nodes and the classes' containers they count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ImageId, u32, u32)> + '_ {
        self.images.iter().map(|(id, image)| (id, image.nodes, image.asked))
    }
}
