//! Image locality: prefers nodes that have the pod's images already.
//!
//! An image counts with its size times the share of nodes that have it, so that a rare image does not draw all pods to
//! few nodes. The sum is scaled from 23 MiB (score 0) and 1000 MiB a container (score 100) to 0..100. Source: the
//! ImageLocality plugin of kube-scheduler 1.36.
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::MAX_SCORE;
use phalanx_cluster::id::ImageId;
use phalanx_cluster::{Class, Cluster, Node};
use phalanx_framework::plugin::{Attribute, NodeRules, NodeScorer, Values};

const MIN_BYTES: i64 = 23 << 20;
const MAX_BYTES_PER_CONTAINER: i64 = 1000 << 20;

/// A number that changes with the nodes that have the pod's images; 0 when no node has one.
pub(super) fn scope(cluster: &Cluster, class: &Class) -> u64 {
    let spread = |image: &ImageId| cluster.image_spread(*image);
    if class.images.iter().all(|image| spread(image).0 == 0) {
        return 0;
    }
    let mut hasher = FxHasher::default();
    class.images.iter().for_each(|image| spread(image).hash(&mut hasher));
    hasher.finish().max(1)
}

pub(super) fn scorer(cluster: &Cluster, class: &Class, weight: i64, rules: &mut NodeRules) {
    let spread = |image: ImageId| {
        let (on, nodes) = cluster.image_spread(image);
        (image, f64::from(on) / f64::from(nodes.max(1)))
    };
    let images: Vec<_> =
        class.images.iter().map(|image| spread(*image)).filter(|(_, part)| *part > 0.0).collect();
    if images.is_empty() {
        return;
    }
    let read = |(image, _): &(ImageId, f64)| (Attribute::Image(*image), Values::All);
    rules.reads.extend(images.iter().map(read));
    let max_bytes = MAX_BYTES_PER_CONTAINER * class.images.len() as i64;
    rules.scorers.push(Box::new(ImageLocality { images, max_bytes, weight }));
}

struct ImageLocality {
    /// Each image with the share of nodes that have it.
    images: Vec<(ImageId, f64)>,
    /// The size from which on the score is 100.
    max_bytes: i64,
    weight: i64,
}

impl NodeScorer for ImageLocality {
    fn score(&self, node: &Node) -> f64 {
        let scaled = |(image, part): &(ImageId, f64)| {
            node.image_size(*image).map_or(0, |size| (size as f64 * part) as i64)
        };
        let sum =
            self.images.iter().map(scaled).fold(0, i64::saturating_add).clamp(MIN_BYTES, self.max_bytes);
        (MAX_SCORE * (sum - MIN_BYTES) / (self.max_bytes - MIN_BYTES)) as f64
    }

    fn normalise(&self, scores: &mut [f64]) {
        for score in scores {
            *score *= self.weight as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::id::Id;

    fn image(at: usize) -> ImageId {
        ImageId::from_index(at)
    }

    /// Figures by hand: 523 MiB on all nodes, one container: 100 * (523 - 23) / (1000 - 23) = 51.
    #[test]
    fn large_and_widely_spread_images_score_highest() {
        for (sizes, part, containers, expected) in [
            (&[523][..], 1.0, 1, 51.0),
            (&[523], 0.5, 1, 24.0),
            (&[523], 1.0, 2, 25.0),
            (&[500, 500], 1.0, 2, 49.0),
            (&[23], 1.0, 1, 0.0),
            (&[4000], 1.0, 1, 100.0),
            (&[], 1.0, 1, 0.0),
        ] {
            let on: Vec<_> = sizes.iter().enumerate().map(|(at, size)| (image(at), *size << 20)).collect();
            let node = Node { images: on, ..Node::default() };
            let images = (0..containers).map(|at| (image(at), part)).collect();
            let max_bytes = MAX_BYTES_PER_CONTAINER * containers as i64;
            let scorer = ImageLocality { images, max_bytes, weight: 3 };
            let mut scores = [scorer.score(&node)];
            assert_eq!(scores, [expected], "{sizes:?} {part} {containers}");
            scorer.normalise(&mut scores);
            assert_eq!(scores, [3.0 * expected]);
        }
    }
}
