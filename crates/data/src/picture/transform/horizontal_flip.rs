//! Left and right exchanged, now and then.

use serde::{Deserialize, Serialize};

use super::{Random, Step, check_probability};
use crate::picture::canvas::Canvas;

/// Costs nothing by itself: the last write reads the other way round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HorizontalFlip {
    pub probability: f32,
}

impl Default for HorizontalFlip {
    fn default() -> Self {
        HorizontalFlip { probability: 0.5 }
    }
}

impl Step for HorizontalFlip {
    fn check(&self) -> Result<(), String> {
        check_probability(self.probability)
    }

    fn idle(&self) -> Option<&'static str> {
        (self.probability == 0.0).then_some("probability")
    }

    fn apply(&self, canvas: &mut Canvas<'_>, random: &mut Random) -> Result<(), String> {
        if random.chance(self.probability) {
            canvas.flip_x();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transform;
    use super::super::tests::{pattern, run};
    use super::*;

    #[test]
    fn half_of_them() {
        for channels in [1, 3, 4] {
            let picture = pattern(5, 2, channels);
            let straight = run(Transform::HorizontalFlip(HorizontalFlip { probability: 0.0 }), &picture, 0).2;
            let flipped = run(Transform::HorizontalFlip(HorizontalFlip { probability: 1.0 }), &picture, 0).2;
            let planes = straight.len() / 10;
            let mirrored: Vec<u8> = straight
                .chunks(5 * planes)
                .flat_map(|row| row.chunks(planes).rev().flatten().copied().collect::<Vec<_>>())
                .collect();
            assert_eq!(flipped, mirrored);
            let count =
                (0..1000).filter(|key| run(Transform::HorizontalFlip(Default::default()), &picture, *key).2 == flipped);
            assert!((440..560).contains(&count.count()));
        }
    }
}
